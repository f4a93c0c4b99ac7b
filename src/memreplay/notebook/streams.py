"""What a command writes: passed on to the cell as it comes, up to a bound, and kept."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

from memreplay.errors import UsageError

MOST_SHOWN = 1_000_000  # characters in a cell; a notebook with many more is slow to open
MOST_JSON = 500  # of JSON, which nobody reads there
MOST_KEPT = 64 << 20  # characters of a result
MORE = "… and more: the value has it as .stdout; -o FILE writes it into a file"
MORE_JSON = "… and more: the value has it as .json(), as in x = %memreplay …"
MOST_WAITING = 4096  # bytes
BINARY = "this is no text: write it into a file (-o FILE)"


class CellText(io.TextIOBase):
    """A stream of text that is no terminal, and yet has a width and may have colours."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, cell: TextIO, *, shows_colour: bool, columns: int) -> None:
        self.cell = cell
        self.shows_colour = shows_colour
        """What `memreplay.commands.shared.output` asks of it, as is `columns`."""
        self.columns = columns
        self.kept: list[str] = []
        self.cut = False
        """Whether there was more than the cell shows."""
        self.is_json = False
        self._shown = self._length = 0
        self.buffer = _Decoding(self)

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError("this is a stream of text")  # click asks whether it is one of bytes
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
        # Python closes a stream that nobody has any more, which flushes it: the cell may be gone.
        if not self.cell.closed:
            self.cell.flush()

    def end(self) -> None:
        """Says in the cell where it was cut."""
        if self.cut:
            self.cell.write(f"\n{MORE_JSON if self.is_json else MORE}\n")

    def text(self) -> str:
        """All that was written, up to MOST_KEPT."""
        return "".join(self.kept)


class _Decoding(io.RawIOBase):
    """The bytes below a CellText: these are text in UTF-8, or an error."""

    def __init__(self, above: CellText) -> None:
        self._above = above
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._waiting = bytearray()  # a file's first bytes may look like text

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
    """A stream whose bytes are kept, and shown to nobody: a page."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self) -> None:
        self.buffer = io.BytesIO()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self.buffer.write(text.encode())
        return len(text)
