"""Streams for a command's output. They keep the output, and show it in the cell up to a limit."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

from memreplay.errors import UsageError

MOST_SHOWN = 1_000_000  # most characters to show in a cell; with more, a notebook opens slowly
MOST_JSON = 500  # maximum number of characters of JSON, which isn't meant for reading
MOST_KEPT = 64 << 20  # maximum number of characters kept
MORE = "… and more: see the result's .stdout, or write it to a file (-o FILE)"
MORE_JSON = "… and more: assign it (x = %memreplay …) and call x.json()"
MOST_WAITING = 4096  # in bytes
BINARY = "the output isn't text; write it to a file (-o FILE)"


class CellText(io.TextIOBase):
    """A text stream that isn't a terminal but has a width and may have colours."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, cell: TextIO, *, shows_colour: bool, columns: int) -> None:
        self.cell = cell
        self.shows_colour = shows_colour
        """Read by `memreplay.commands.shared.output`, like `columns`."""
        self.columns = columns
        self.kept: list[str] = []
        self.cut = False
        """Whether the cell shows only part of it."""
        self.is_json = False
        self._shown = self._length = 0
        self.buffer = _Decoding(self)

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError("this stream takes only text")  # click tests for a binary stream
        if not self._length:
            self.is_json = text.startswith(("{", "["))
        if self._length < MOST_KEPT:
            self.kept.append(text[: MOST_KEPT - self._length])
        self._length += len(text)
        left = (MOST_JSON if self.is_json else MOST_SHOWN) - self._shown
        if left > 0:
            self.cell.write(text[:left])
            self._shown += min(len(text), left)
        self.cut = self.cut or len(text) > max(left, 0)
        return len(text)

    def flush(self) -> None:
        # Python flushes a stream when it's garbage-collected, by which time the cell may have
        # ended.
        if not self.cell.closed:
            self.cell.flush()

    def end(self) -> None:
        """Show in the cell that the output was cut."""
        if self.cut:
            self.cell.write(f"\n{MORE_JSON if self.is_json else MORE}\n")

    def text(self) -> str:
        """Return everything written, up to MOST_KEPT."""
        return "".join(self.kept)


class _Decoding(io.RawIOBase):
    """The binary side of a CellText, which only accepts UTF-8 text."""

    def __init__(self, above: CellText) -> None:
        self._above = above
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._waiting = bytearray()  # the first bytes of a binary file may look like text

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._waiting += piece
        if len(self._waiting) >= MOST_WAITING:
            self.flush()
        return len(piece)

    def flush(self) -> None:
        piece, self._waiting = bytes(self._waiting), bytearray()
        try:
            text = self._decoder.decode(piece)
        except UnicodeDecodeError:
            raise UsageError(BINARY) from None
        if "\0" in text:
            raise UsageError(BINARY)
        if text:
            self._above.write(text)


class CellBytes(io.TextIOBase):
    """A stream that keeps bytes (a page) without showing them."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self) -> None:
        self.buffer = io.BytesIO()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self.buffer.write(text.encode())
        return len(text)
