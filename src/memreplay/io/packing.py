"""Writes a snapshot as the ending of its name says: JSON or pickle, and how it is compressed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from memreplay.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from typing import Protocol

    class _Compressor(Protocol):
        def compress(self, data: bytes, /) -> bytes: ...
        def flush(self) -> bytes: ...


Format = Literal["pickle", "json"]
Packing = Literal["gzip", "zstd", "xz", "bzip2"]

FORMATS: dict[str, Format] = {".pkl": "pickle", ".pickle": "pickle", ".json": "json"}
PACKINGS: dict[str, Packing] = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".xz": "xz",
    ".bz2": "bzip2",
}


def by_name(name: str) -> tuple[Format | None, Packing | None]:
    """What the ending of a name says: (format, packing), None for what it does not say.

    Raises UsageError for `.zip`, which is read and not written.
    """
    lower = name.lower()
    if lower.endswith(".zip"):
        raise UsageError("zip archives are not written; name it .gz, .zst, .xz or .bz2")
    packing = next((kind for end, kind in PACKINGS.items() if lower.endswith(end)), None)
    if packing is not None:
        lower = lower.rpartition(".")[0]
    return next((kind for end, kind in FORMATS.items() if lower.endswith(end)), None), packing


def as_text(data: bytes) -> str:
    """Bytes as text that JSON can hold: base64 of zlib's form (docs/format.md)."""
    return base64.b64encode(zlib.compress(data, 6)).decode()


@contextmanager
def packed(out: IO[bytes], packing: Packing | None) -> Iterator[IO[bytes]]:
    """Where to write plain bytes, which go to `out` compressed; of the same bytes the same.

    Raises MissingExtraError where zstandard is not installed.
    """
    if packing is None:
        yield out
        return
    compressor = _compressor(packing)
    yield cast("IO[bytes]", _Packed(out, compressor))
    with _memory_by_its_name():
        last = compressor.flush()
    out.write(last)


class _Packed:
    """A file of which only `write` is there."""

    def __init__(self, out: IO[bytes], compressor: _Compressor) -> None:
        self._out = out
        self._compressor = compressor

    def write(self, data: bytes) -> int:
        with _memory_by_its_name():
            packed = self._compressor.compress(data)
        self._out.write(packed)
        return len(data)


@contextmanager
def _memory_by_its_name() -> Iterator[None]:
    """A want of memory is a MemoryError, whatever a library calls it: zstandard has an error of its
    own for all that fails ("Allocation error : not enough memory")."""
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        if "memory" not in str(error):
            raise
        raise MemoryError from error


def _compressor(packing: Packing) -> _Compressor:
    # Each is loaded when it is asked for: most commands compress nothing.
    if packing == "gzip":
        # A gzip header with neither a time nor a name.
        return zlib.compressobj(6, zlib.DEFLATED, 31)
    if packing == "xz":
        import lzma

        return lzma.LZMACompressor(preset=3)
    if packing == "bzip2":
        import bz2

        return bz2.BZ2Compressor()
    try:
        standard: Any = import_module("compression.zstd")  # Python 3.14 and later
    except ImportError:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("compressing with zstandard needs a package", "zst") from None
        return zstandard.ZstdCompressor(level=3).compressobj()
    return cast("_Compressor", standard.ZstdCompressor(level=3))
