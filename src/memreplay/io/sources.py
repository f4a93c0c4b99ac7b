"""Opens what a caller names (a path, bytes, a file, a URL) as one forward stream of bytes."""

from __future__ import annotations

import io
import os
import stat
from typing import Any, BinaryIO

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO


class Raw(io.RawIOBase):
    """The bytes of any binary source as they lie there.

    `name` is what to call it, `total` its size where known, `taken` how many bytes were handed out.
    `waits`: a read may take for ever, as of a pipe or a terminal. `read` gives all that was asked
    for unless the source ends, whatever the source does. Closing it closes the source only if
    `owned`.
    """

    def __init__(
        self, source: Any, name: str, total: int | None = None, *, owned: bool = True
    ) -> None:
        super().__init__()
        self.name = name
        self.total = total
        self.taken = 0
        self.waits = _may_wait(source)
        self._source = source
        self._fill = getattr(source, "readinto", None)
        self._owned = owned

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._fill is not None:
            n = self._fill(view)
        else:
            data = self._source.read(len(view))
            if isinstance(data, str):
                raise TypeError("the file is open as text; open it with mode 'rb'")
            n = None if data is None else len(data)
            if data:
                view[:n] = data
        if n is None:
            raise BlockingIOError("the source has no data yet and does not wait; let it block")
        self.taken += n
        return int(n)

    def read(self, size: int | None = -1) -> bytes:
        out = bytearray()
        while size is None or size < 0 or len(out) < size:
            piece = super().read(1 << 16 if size is None or size < 0 else size - len(out))
            if not piece:
                break
            out += piece
        return bytes(out)

    def seekable(self) -> bool:
        ask = getattr(self._source, "seekable", None)
        return bool(ask and ask())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._source.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._source.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._owned:
                self._source.close()


class _Memory:
    # Bytes that the caller has, as a file: a piece is copied when it is asked for, never the whole.
    # It is copied, since what is not `bytes` may change while it is parsed.

    def __init__(self, view: memoryview, at: int = 0) -> None:
        self._view = view
        self._at = at

    def readinto(self, buffer: memoryview) -> int:
        piece = self._view[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._view)}[whence]
        self._at = max(0, start + offset)

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._view.release()


def open_source(source: Source) -> Raw:
    """Opens `source` for reading; the caller closes it.

    Raises
    ------
    OSError
        The path or the URL can't be opened (a directory too).
    MissingExtraError
        It is a URL, and fsspec or what fsspec needs for it is not installed.
    TypeError
        It is none of these.
    """
    # What it takes to read URLs is not loaded for a path.
    if isinstance(source, str) and ":" in source:
        from memreplay.io.urls import is_url

        if is_url(source):
            from memreplay.io.remote import open_url

            return open_url(source)
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        file = io.FileIO(name, "r")
        return Raw(file, name, _size_of(file))
    if hasattr(source, "read"):
        return Raw(source, str(getattr(source, "name", "<stream>")), owned=False)
    try:
        view = memoryview(source)
    except TypeError:
        kind = type(source).__name__
        raise TypeError(
            f"a snapshot is read from a path, a URL, bytes or a binary file, not from {kind}"
        ) from None
    # Bytes in several dimensions, or every second one, are copied: nobody has a snapshot so.
    flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    return Raw(_Memory(flat), "<bytes>", flat.nbytes)


def _may_wait(source: Any) -> bool:
    """Whether behind a file object there is a pipe, a terminal or a socket."""
    try:
        return not stat.S_ISREG(os.fstat(source.fileno()).st_mode)
    except (AttributeError, OSError, TypeError, ValueError):
        return False  # a file of Python's own: it has no number


def _size_of(file: io.FileIO) -> int | None:
    """The size of a regular file; None for pipes and devices."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
