"""Open a path, bytes, a file or a URL as a sequential stream of bytes."""

from __future__ import annotations

import io
import os
import stat
from typing import BinaryIO

from memreplay.io.raw import Raw

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO


class _Memory:
    # Bytes in memory, as a file. Copies the bytes that are read, because buffers other than `bytes`
    # may change during parsing.

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
    """Open `source` for reading.

    The caller must close it.

    Raises
    ------
    OSError
        The path or URL can't be opened, or is a directory.
    MissingExtraError
        fsspec, or the package it needs for this kind of URL, is not installed.
    TypeError
        `source` has an unsupported type.
    """
    # Only load the modules for URLs if the source isn't a path.
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
        raise TypeError(f"expected a path, a URL, bytes or a binary file, got {kind}") from None
    # This only copies buffers that are non-contiguous or multidimensional.
    flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    return Raw(_Memory(flat), "<bytes>", flat.nbytes)


def _size_of(file: io.FileIO) -> int | None:
    """Return a regular file's size; None for pipes and devices."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None
