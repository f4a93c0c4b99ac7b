"""Data in lines (CSV) that goes to a terminal: it shows all of it, and obeys nothing of it."""

from __future__ import annotations

import codecs
import io
import sys
from typing import IO, Any, cast

from memreplay.texts import clean_lines


class Screen(io.RawIOBase):
    """A binary stream of UTF-8 whose lines are cleaned on their way to `screen`."""

    def __init__(self, screen: IO[bytes]) -> None:
        self._screen = screen
        # What a piece ends within waits for the next one.
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        """As any file that is written to."""
        return True

    def write(self, data: Any) -> int:
        """As a raw file's."""
        self._screen.write(clean_lines(self._decoder.decode(bytes(data))).encode())
        return len(data)


def screened(out: IO[bytes]) -> IO[bytes]:
    """Where to write data that goes to stdout's buffer: as it is, unless that is a terminal."""
    return cast("IO[bytes]", Screen(out)) if sys.stdout.isatty() else out
