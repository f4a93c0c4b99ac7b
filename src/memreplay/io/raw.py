"""The base class of all inputs: a source's bytes as stored."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from typing import Any

Fill = Callable[[memoryview], int]
"""Like readinto: fills the start of a buffer and returns the number of bytes, 0 at the end."""


class Raw(io.RawIOBase):
    """The bytes of a binary source, as stored.

    Attributes
    ----------
    name : str
        What to call the source in messages.
    total : int or None
        Size in bytes, if known.
    taken : int
        Bytes read so far.
    waits : bool
        Whether a read may block forever, as on a pipe or a terminal.

    `read` returns as many bytes as requested unless the source ends, even if the source returns
    fewer at a time. `close` closes the source only if `owned`.
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
            raise BlockingIOError("the source is non-blocking and has no data; pass a blocking one")
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


def _may_wait(source: Any) -> bool:
    """Return whether a file object reads from a pipe, a terminal or a socket."""
    try:
        return not stat.S_ISREG(os.fstat(source.fileno()).st_mode)
    except (AttributeError, OSError, TypeError, ValueError):
        return False  # a Python file object without a descriptor
