"""Tests of packing.py."""

from __future__ import annotations

import gzip
import io

import pytest

import memreplay as mr
from memreplay.io import packing
from memreplay.io.packing import by_name, packed


@pytest.mark.parametrize(
    "name, want",
    [
        ("a.pkl", ("pickle", None)),
        ("a.PICKLE.GZ", ("pickle", "gzip")),
        ("a.json.zst", ("json", "zstd")),
        ("a.b.json", ("json", None)),
        ("a.xz", (None, "xz")),
        ("a", (None, None)),
        ("-", (None, None)),
        ("", (None, None)),
    ],
)
def test_format_is_chosen_by_suffix(name: str, want: object) -> None:
    assert by_name(name) == want


def test_zip_is_refused() -> None:
    with pytest.raises(mr.UsageError, match="zip archives can't be written"):
        by_name("a.pkl.zip")


def test_output_is_deterministic() -> None:
    made = []
    for _ in range(2):
        out = io.BytesIO()
        with packed(out, "gzip") as plain:
            plain.write(b"one ")
            plain.write(b"two")
        made.append(out.getvalue())
    assert made[0] == made[1]
    assert gzip.decompress(made[0]) == b"one two"


class OwnError(Exception):
    """An error like that of zstandard, which has a single exception class."""


@pytest.mark.parametrize("at", ["compress", "flush"])
@pytest.mark.parametrize(
    "words, raised",
    [("Allocation error : not enough memory", MemoryError), ("Src size is incorrect", OwnError)],
)
def test_out_of_memory_of_any_library_is_a_memory_error(
    at: str, words: str, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Compressor:
        def compress(self, data: bytes) -> bytes:
            return self.fail() if at == "compress" else data

        def flush(self) -> bytes:
            return self.fail()

        def fail(self) -> bytes:
            raise OwnError(words)

    monkeypatch.setattr(packing, "_compressor", lambda _: Compressor())
    with pytest.raises(raised), packed(io.BytesIO(), "zstd") as out:
        out.write(b"abc")


@pytest.mark.parametrize("error", [BrokenPipeError, OSError])
def test_errors_of_the_output_file_are_unchanged(error: type[OSError]) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise error(28, "no memory left")

    with pytest.raises(error), packed(Full(), "gzip") as out:
        out.write(b"abc")
