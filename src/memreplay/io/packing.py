"""Write a snapshot in the format and with the compression that its file name implies."""

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
    """Return (format, compression) for a file name, each None if the extension doesn't imply one.

    Raises UsageError for `.zip`, which can be read but not written.
    """
    lower = name.lower()
    if lower.endswith(".zip"):
        raise UsageError("zip archives can't be written; use .gz, .zst, .xz or .bz2")
    packing = next((kind for end, kind in PACKINGS.items() if lower.endswith(end)), None)
    if packing is not None:
        lower = lower.rpartition(".")[0]
    return next((kind for end, kind in FORMATS.items() if lower.endswith(end)), None), packing


def as_text(data: bytes) -> str:
    """Encode bytes as text for JSON, using zlib and then base64 (docs/format.md)."""
    return base64.b64encode(zlib.compress(data, 6)).decode()


@contextmanager
def packed(out: IO[bytes], packing: Packing | None) -> Iterator[IO[bytes]]:
    """Yield a file that compresses everything written to it and passes the result on to `out`.

    The same input always produces the same output.

    Raises MissingExtraError if zstandard is not installed.
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
    """A write-only file."""

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
    """Convert libraries' allocation failures to MemoryError. zstandard raises its general error in
    this case ("Allocation error : not enough memory").
    """
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        if "memory" not in str(error):
            raise
        raise MemoryError from error


def _compressor(packing: Packing) -> _Compressor:
    # Imported on demand, because most commands don't compress anything.
    if packing == "gzip":
        # the value 31 selects a gzip header, without time and name
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
