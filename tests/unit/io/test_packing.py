"""Tests of packing.py."""

from __future__ import annotations

import gzip
import io

import pytest

import memreplay as mr
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
