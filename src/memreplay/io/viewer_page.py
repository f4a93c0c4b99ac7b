"""Extract the base64-encoded snapshots from an HTML page written by PyTorch's viewer, as a stream.

`torch.cuda._memory_viz trace_plot` and `segment_plot` write a page that passes its files to
MemoryViz.js as `[{"name": "snapshot.pickle", "base64": "gASV…"}]`. Several snapshots are
concatenated, like several pickles in one file.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING

from memreplay.errors import SnapshotError, TruncatedError

if TYPE_CHECKING:
    from memreplay.io.raw import Fill

PIECE = 48 << 10  # bytes of the page to read at once; base64 encodes three bytes in four characters
# Starts with literal letters so that the search is fast. The lookbehind rejects `mybase64`.
MARK = re.compile(rb"base64(?<![\w]base64)[\"']?[ \t\r\n]{0,64}:[ \t\r\n]{0,64}([\"'])")
# longest match of MARK, in bytes; this much of each piece's end is searched again
LONGEST_MARK = 160
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_WRONG = re.compile(rb"[^A-Za-z0-9+/= \t\r\n\\]")
# Whitespace, and the backslash that some JSON writers put before a slash.
IGNORED = b" \t\r\n\\"
# Identifies memreplay's own pages, which have this near their start.
OWN = b'<meta name="generator" content="memreplay '


def holds_snapshot(head: bytes) -> bool:
    """Return whether the start of a page contains a snapshot and memreplay didn't write the
    page.
    """
    return not is_own(head) and MARK.search(head) is not None


def is_own(head: bytes) -> bool:
    """Return whether memreplay wrote the page, judging by its start."""
    return OWN in head


class PageSnapshots:
    """A page's snapshots, decoded and concatenated. Holds one piece of the page at a time."""

    def __init__(self, source: Fill) -> None:
        self._source = source
        self._piece = memoryview(bytearray(PIECE))
        self._text = b""  # bytes read but not yet scanned
        self._at = 0  # number of bytes before `_text` in the page
        self._quote = b""  # quote that ends the current base64 string; empty outside strings
        self._letters = b""  # up to three characters left over from the previous piece
        self._ended = False  # whether padding has been read, so that only the quote may follow
        self._given = False  # whether at least one byte of a snapshot was returned
        self._own = False
        self._out = memoryview(b"")

    def fill(self, view: memoryview) -> int:
        """Fill `view` with the next bytes, like `readinto`, and return their number.

        Raises SnapshotError if the page has no snapshot or its base64 is damaged, TruncatedError if
        the page ends inside a snapshot.
        """
        while not self._out:
            if not (self._decode() if self._quote else self._find()):
                return 0
        self._given = True
        n = min(len(view), len(self._out))
        view[:n] = self._out[:n]
        self._out = self._out[n:]
        return n

    def _find(self) -> bool:
        """Skip to the next base64 string. Returns False if there is none."""
        while True:
            mark = MARK.search(self._text)
            if mark is not None:
                self._skip(mark.end())
                self._quote = mark[1]
                return True
            self._own |= OWN in self._text
            self._skip(max(0, len(self._text) - LONGEST_MARK))
            if not self._read():
                if not self._given:
                    raise self._no_snapshot()
                return False

    def _no_snapshot(self) -> SnapshotError:
        if self._own:
            what = "a page written by memreplay"
            hint = "open it in a browser, or pass the snapshot it was made from"
        else:
            what = "an HTML page without a snapshot in it"
            hint = "download the file itself, not the page that shows it"
        return SnapshotError(f"not a memory snapshot, but {what}", hint=hint)

    def _decode(self) -> bool:
        """Decode the base64 read so far. Always returns True."""
        if not self._text and not self._read():
            raise TruncatedError(
                "the page ends inside its snapshot",
                offset=self._at,
                hint="the file was cut off; copy or write it again",
            )
        at = self._text.find(self._quote)
        raw = self._text if at < 0 else self._text[:at]
        letters = self._letters + raw.translate(None, IGNORED)
        done = at >= 0
        whole = len(letters) if done else len(letters) // 4 * 4
        self._letters = letters[whole:]
        letters = letters[:whole]
        plain = letters.rstrip(b"=") if letters.endswith(b"=") else letters
        padding = len(letters) - len(plain)
        if (
            plain.translate(None, ALPHABET)
            or padding > 2
            or len(letters) % 4
            or (letters and self._ended)
        ):
            wrong = _WRONG.search(raw)
            raise SnapshotError(
                "damaged base64 in the page",
                offset=self._at + (wrong.start() if wrong else 0),
                hint="copy the page again, or dump the snapshot itself",
            )
        self._ended = padding > 0
        self._out = memoryview(binascii.a2b_base64(letters))
        self._skip(len(raw) + done)
        if done:
            self._quote, self._letters, self._ended = b"", b"", False
        return True

    def _read(self) -> bool:
        """Read another piece. Returns False at the end of the page."""
        n = self._source(self._piece)
        self._text += self._piece[:n]
        return n > 0

    def _skip(self, n: int) -> None:
        self._at += n
        self._text = self._text[n:]
