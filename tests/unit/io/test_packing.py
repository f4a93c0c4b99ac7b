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
def test_by_name(name: str, want: object) -> None:
    assert by_name(name) == want


def test_no_zip() -> None:
    with pytest.raises(mr.UsageError, match="zip archives are not written"):
        by_name("a.pkl.zip")


def test_the_same_bytes_are_packed_alike() -> None:
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
    """As zstandard's, which has one for all that fails."""


@pytest.mark.parametrize("at", ["compress", "flush"])
@pytest.mark.parametrize(
    "words, raised",
    [("Allocation error : not enough memory", MemoryError), ("Src size is incorrect", OwnError)],
)
def test_a_want_of_memory_is_one_whatever_a_library_calls_it(
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
def test_what_the_file_says_is_left_as_it_is(error: type[OSError]) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise error(28, "no memory left")

    with pytest.raises(error), packed(Full(), "gzip") as out:
        out.write(b"abc")
