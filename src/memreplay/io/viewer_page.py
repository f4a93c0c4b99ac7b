"""Reads the snapshots that an HTML page of PyTorch's viewer holds in base64, as a stream.

`torch.cuda._memory_viz trace_plot` and `segment_plot` write a page that gives its files to
MemoryViz.js as `[{"name": "snapshot.pickle", "base64": "gASV…"}]`. The viewer of a running page
takes several files. They come one after the other, as several pickles in one file do.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING

from memreplay.errors import SnapshotError, TruncatedError

if TYPE_CHECKING:
    from memreplay.io.raw import Fill

PIECE = 48 << 10  # bytes of the page at once; four of its characters are three bytes
# It begins with letters, which are found fast; `mybase64` is refused by what lies before.
MARK = re.compile(rb"base64(?<![\w]base64)[\"']?[ \t\r\n]{0,64}:[ \t\r\n]{0,64}([\"'])")
LONGEST_MARK = 160  # bytes that the mark may take: so much of a piece is looked at again
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_WRONG = re.compile(rb"[^A-Za-z0-9+/= \t\r\n\\]")
# White space and the backslash that some writers of JSON put before a slash.
IGNORED = b" \t\r\n\\"
# What memreplay's own pages say of themselves, near their beginning.
OWN = b'<meta name="generator" content="memreplay '


def holds_snapshot(head: bytes) -> bool:
    """Whether the beginning of a page shows that there is a snapshot in it; not in those that
    memreplay wrote."""
    return not is_own(head) and MARK.search(head) is not None


def is_own(head: bytes) -> bool:
    """Whether the beginning of a page shows that memreplay wrote it."""
    return OWN in head


class PageSnapshots:
    """The plain bytes of the snapshots in a page, one after the other.

    Holds a piece of the page at a time, however long the page or what is in it.
    """

    def __init__(self, source: Fill) -> None:
        self._source = source
        self._piece = memoryview(bytearray(PIECE))
        self._text = b""  # read, and not looked at yet
        self._at = 0  # bytes of the page before `_text`
        self._quote = b""  # what ends the base64 that is being read; empty outside of it
        self._letters = b""  # fewer than four characters of it that wait for the others
        self._ended = False  # padding was met, which only the quote may follow
        self._given = False  # a byte of a snapshot at least
        self._own = False
        self._out = memoryview(b"")

    def fill(self, view: memoryview) -> int:
        """Give the next bytes, as `readinto` does; 0 at the end.

        Raises SnapshotError if the page has no snapshot or its base64 is damaged, TruncatedError if
        the page ends inside one.
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
        """Go to where the next base64 begins; False if there is none."""
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
            what = "a page that memreplay wrote"
            hint = "name the snapshot that it was made from"
        else:
            what = "an HTML page without a snapshot in it"
            hint = "download the file itself, not the page that shows it"
        return SnapshotError(f"not a memory snapshot, but {what}", hint=hint)

    def _decode(self) -> bool:
        """Decode what is there of the base64; True."""
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
        """Read another piece; False at the end of the page."""
        n = self._source(self._piece)
        self._text += self._piece[:n]
        return n > 0

    def _skip(self, n: int) -> None:
        self._at += n
        self._text = self._text[n:]
