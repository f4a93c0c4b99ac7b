"""Clean line-based data (CSV) on its way to a terminal."""

from __future__ import annotations

import codecs
import io
import sys
from typing import IO, Any, cast

from memreplay.texts import clean_lines


class Screen(io.RawIOBase):
    """A binary stream that removes control characters from UTF-8 lines and writes them to
    `screen`.
    """

    def __init__(self, screen: IO[bytes]) -> None:
        self._screen = screen
        # Keep incomplete characters for the next chunk.
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write data, as a raw file does."""
        self._screen.write(clean_lines(self._decoder.decode(bytes(data))).encode())
        return len(data)


def screened(out: IO[bytes]) -> IO[bytes]:
    """Return a stream that writes to stdout, and cleans the data if stdout is a terminal."""
    return cast("IO[bytes]", Screen(out)) if sys.stdout.isatty() else out
