"""Opens a path, bytes or a binary file as a stream of the plain pickle inside, by content and not
by name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, cast

from memreplay.errors import MissingExtraError, SnapshotError, TruncatedError

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO

RECORD = "record one with torch.cuda.memory._dump_snapshot(path)"
UNPACK = "unpack it first"

# The first bytes of what people hand in by mistake, and what to say of it.
FOREIGN = (
    (b"PK\x03\x04", "not a memory snapshot, but a zip archive, as torch.save writes", RECORD),
    (b"\x89PNG\r\n\x1a\n", "not a memory snapshot, but a PNG picture", RECORD),
    (b"\xff\xd8\xff", "not a memory snapshot, but a JPEG picture", RECORD),
    (b"%PDF", "not a memory snapshot, but a PDF", RECORD),
    (b"\x7fELF", "not a memory snapshot, but a program", RECORD),
    (b"\x93NUMPY", "not a memory snapshot, but a NumPy array", RECORD),
    (b"PAR1", "not a memory snapshot, but a parquet file", RECORD),
    (b"<!DOCTYPE", "not a memory snapshot, but an HTML page", RECORD),
    (b"<html", "not a memory snapshot, but an HTML page", RECORD),
    (b"\xfd7zXZ\x00", "xz compression is not read", UNPACK),
    (b"BZh", "bzip2 compression is not read", UNPACK),
)


@dataclass(slots=True)
class Stream:
    """The plain pickle as a stream, and where it came from.

    `readinto` fills a writable buffer and returns how many bytes it gave, 0 at the end. `position`
    says how many bytes of the input are consumed, `total` how many there are (None where nobody
    knows): both count the file as it lies there, compressed or not.
    """

    name: str
    kind: str
    total: int | None
    readinto: Callable[[memoryview], int]
    position: Callable[[], int]
    close: Callable[[], None]


class _Counted(io.RawIOBase):
    """A raw stream over any binary source that counts the bytes it hands out."""

    def __init__(self, source: BinaryIO | io.RawIOBase, head: bytes) -> None:
        self._source = source
        self._head = head
        self._fill = getattr(source, "readinto", None)
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._head:
            n = min(len(view), len(self._head))
            view[:n] = self._head[:n]
            self._head = self._head[n:]
        elif self._fill is not None:
            n = self._fill(view) or 0
        else:
            data = self._source.read(len(view)) or b""
            n = len(data)
            view[:n] = data
        self.taken += n
        return n


def open_stream(source: Source) -> Stream:
    """Opens `source`; the caller calls `close()`.

    Raises
    ------
    OSError
        The path can't be opened (a directory too).
    SnapshotError
        The content is plainly something else.
    MissingExtraError
        It is compressed with zstandard, and that package is not installed.
    """
    total: int | None = None
    raw: BinaryIO | io.RawIOBase
    owned = True
    if isinstance(source, (bytes, bytearray, memoryview)):
        name, total = "<bytes>", len(source)
        raw = io.BytesIO(source)
    elif isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        raw = io.FileIO(name, "r")
        total = _size_of(raw)
    else:
        name = str(getattr(source, "name", "<stream>"))
        raw, owned = source, False
    try:
        stream = _unwrap(raw, name, total)
    except BaseException:
        if owned:
            raw.close()
        raise
    if owned:
        stream.close = raw.close
    return stream


def _size_of(raw: io.FileIO) -> int | None:
    """The size of a regular file; None for pipes and devices."""
    import stat

    status = os.fstat(raw.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _head_of(raw: BinaryIO | io.RawIOBase, n: int = 16) -> bytes:
    head = b""
    while len(head) < n:
        more = raw.read(n - len(head))
        if not more:
            break
        if isinstance(more, str):
            raise TypeError("the file is open as text; open it with mode 'rb'")
        head += more
    return head


def _unwrap(raw: BinaryIO | io.RawIOBase, name: str, total: int | None) -> Stream:
    head = _head_of(raw)
    if not head:
        raise SnapshotError("the file is empty", hint="the dump did not get to write anything")
    for magic, what, hint in FOREIGN:
        if head.startswith(magic):
            raise SnapshotError(what, offset=0, hint=hint)
    counted = _Counted(raw, head)
    kind = "pickle"
    readinto: Callable[[memoryview], int] = counted.readinto
    if head.startswith(b"\x1f\x8b"):
        kind, readinto = "gzip", _gzip(counted)
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        kind, readinto = "zstd", _zstd(counted)
    elif isinstance(raw, io.FileIO) and total is not None:
        # Straight from the file: one call a window less.
        raw.seek(0)
        readinto = raw.readinto
        return Stream(name, kind, total, readinto, raw.tell, _nothing)
    return Stream(name, kind, total, readinto, lambda: counted.taken, _nothing)


def _nothing() -> None:
    pass


def _gzip(counted: _Counted) -> Callable[[memoryview], int]:
    import gzip
    import zlib

    stream = gzip.GzipFile(fileobj=io.BufferedReader(counted, 1 << 18))

    def readinto(view: memoryview) -> int:
        try:
            return stream.readinto(view)
        except EOFError:
            raise _cut("gzip", counted.taken) from None
        except (OSError, zlib.error) as error:
            raise _damaged("gzip", counted.taken, error) from None

    return readinto


def _zstd(counted: _Counted) -> Callable[[memoryview], int]:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            "this snapshot is compressed with zstandard; pip install 'memreplay[zst]' to read it"
        ) from None
    stream = zstandard.ZstdDecompressor().stream_reader(
        cast(BinaryIO, counted), read_across_frames=True
    )

    def readinto(view: memoryview) -> int:
        try:
            return stream.readinto(view)
        except zstandard.ZstdError as error:
            raise _damaged("zstd", counted.taken, error) from None

    return readinto


def _cut(kind: str, taken: int) -> TruncatedError:
    return TruncatedError(
        f"truncated {kind} stream after {taken} compressed bytes",
        hint="the file was cut off; copy or write it again",
    )


def _damaged(kind: str, taken: int, error: Exception) -> SnapshotError:
    return SnapshotError(
        f"damaged {kind} stream after {taken} compressed bytes: {error}",
        hint="copy the file again",
    )
