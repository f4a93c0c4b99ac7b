"""Containers with mutated contents, and mutated containers."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zipfile
from functools import lru_cache

from tests.fuzz import raw


def _zip(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            zipfile.ZipInfo("snap.pkl"), data
        )  # ZipInfo's default date, so the bytes never vary
    return out.getvalue()


def _stored(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("snap.pkl"), data)
    return out.getvalue()


def _zstd(data: bytes) -> bytes:
    try:
        import zstandard
    except ImportError:
        return data
    packed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return packed


PACKERS = {
    "gzip": lambda data: gzip.compress(data, 1, mtime=0),
    "bzip2": lambda data: bz2.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zip": _zip,
    "stored": _stored,
    "zstd": _zstd,
}
OFTEN = ("gzip", "gzip", "gzip", "zip", "zip", "stored", "zstd", "zstd", "bzip2", "xz")


@lru_cache(maxsize=4096)
def packed(data: bytes, how: str) -> bytes:
    return PACKERS[how](data)


def of_mutated(rng: random.Random, data: bytes) -> bytes:
    """Return mutated contents in a valid container; rarely in two nested containers, or after
    another container.
    """
    out = packed.__wrapped__(data, rng.choice(OFTEN))
    if rng.random() < 0.1:
        out = packed.__wrapped__(out, rng.choice(OFTEN))
    if rng.random() < 0.05:
        half = rng.randrange(len(data) + 1)
        out = gzip.compress(data[:half], 1, mtime=0) + gzip.compress(data[half:], 1, mtime=0)
    return out


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return valid contents in a broken container."""
    how = rng.choice(OFTEN)
    out = packed(data, how)
    if rng.random() < 0.1:
        return raw.splice(rng, out, packed(other, how))
    if rng.random() < 0.5:
        # Mutate mostly headers and tables of contents: they're small, but most errors are there.
        head = rng.choice((8, 32))
        front = rng.random() < 0.5
        part, rest = (out[:head], out[head:]) if front else (out[-3 * head :], out[: -3 * head])
        part = raw.mutated(rng, part, rng.choice((1, 1, 3)))
        return part + rest if front else rest + part
    return raw.mutated(rng, out, rng.choice((1, 1, 2, 5)))
