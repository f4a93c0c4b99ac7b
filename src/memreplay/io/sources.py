"""Opens what a caller names (a path, bytes, a file, a URL) as one forward stream of bytes."""

from __future__ import annotations

import io
import os
import stat
from typing import BinaryIO

from memreplay.io.raw import Raw

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO


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


def _size_of(file: io.FileIO) -> int | None:
    """The size of a regular file; None for pipes and devices."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
