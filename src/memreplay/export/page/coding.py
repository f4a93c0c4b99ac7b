"""Columns of integers as bytes for a page: differences, in planes, deflated.

A column becomes unsigned numbers (differences to the one before, where those are smaller, folded so
that -1 is 1 and 1 is 2), as wide as the largest of them needs. They are written in planes: the
lowest bytes of all numbers, then the next ones. Neighbours in a plane are alike, which deflate
makes use of; and a script puts the planes together again with one loop.

Of a column whose numbers come again and again, such as addresses, it is said how far back the same
one stood; new numbers stand in a column of their own.
"""

from __future__ import annotations

import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from memreplay.engine.query._recurring import rows_back
from memreplay.errors import LimitError
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray

MOST = 2**53 - 1  # a larger number may be another one to a script
_PART = 1 << 15  # numbers
_MOST_WAITING = 4  # planes, a byte an allocation each
# A higher level takes longer for little less: nobody waits for it where there is not much, and
# everybody where there is.
LEVELS = ((100_000, 9), (1_000_000, 5))  # up to so many events
LEVEL_OF_MANY = 2


def check_exact(*numbers: int) -> None:
    """Raises LimitError for numbers that a script cannot hold."""
    if any(abs(number) > MOST for number in numbers):
        raise LimitError(
            "a number in it has more than 53 bits, and a browser counts no further",
            hint="the text commands have no such limit",
        )


class Coded(Record, frozen=True):
    """Where a column's bytes are, and how to read them."""

    rows: int
    """How many numbers."""
    width: int
    """How many planes, 0 to 8; none where all numbers are 0."""
    differences: bool
    """Whether each number is the difference to the one before it, the first to 0."""
    at: int
    """Where its planes begin in the page's bytes, once these are inflated."""
    fresh: Coded | None = None
    """Where it is there, numbers say how many rows before the same one stood, 0 where none did:
    then it is the next one of `fresh`."""


class Packer:
    """Deflates what it is given, one after the other: `beside` all else where that is worth a
    thread."""

    def __init__(self, level: int, *, beside: bool) -> None:
        self._stream = zlib.compressobj(level)
        self._thread = ThreadPoolExecutor(1) if beside else None
        self._waiting: deque[Future[bytes]] = deque()
        self._packed: list[bytes] = []

    def add(self, data: NDArray[np.uint8]) -> None:
        """More of it, which may be changed afterwards."""
        if self._thread is None:
            self._packed.append(self._stream.compress(data.data))
            return
        while len(self._waiting) >= _MOST_WAITING:
            self._packed.append(self._waiting.popleft().result())
        self._waiting.append(self._thread.submit(self._stream.compress, data.tobytes()))

    def packed(self) -> bytes:
        """All of it as a zlib stream (RFC 1950). No more can be added."""
        if self._thread is not None:
            self._packed += [one.result() for one in self._waiting]
            self._thread.shutdown()
        return b"".join([*self._packed, self._stream.flush()])


class Columns:
    """The columns of a page, one behind the other; how many events there are decides how hard they
    are pressed."""

    def __init__(self, events: int = 0) -> None:
        level = next((level for most, level in LEVELS if events <= most), LEVEL_OF_MANY)
        self._packer = Packer(level, beside=events > LEVELS[0][0])
        self._scratch = np.empty(0, dtype=np.uint8)
        self.bytes = 0
        """How many bytes the columns have before they are deflated."""

    def add(
        self,
        values: NDArray[Any],
        *,
        less: NDArray[Any] | None = None,
        differences: bool = False,
    ) -> Coded:
        """One more, of any integers, less those of another. Raises LimitError for numbers that a
        script cannot hold."""
        rows = len(values)
        if rows:
            check_exact(int(values.min()), int(values.max()))
        # A part at a time, which the processor's cache holds: what is in between is never in memory
        # as a whole.
        highest = max(
            (int(part.max()) for _, part in _folded(values, less, differences)), default=0
        )
        check_exact((highest + 1) >> 1)
        width = (highest.bit_length() + 7) // 8
        if len(self._scratch) < width * rows:
            self._scratch = np.empty(width * rows, dtype=np.uint8)
        planes = self._scratch[: width * rows].reshape(width, rows)
        for at, part in _folded(values, less, differences) if width else ():
            whole = part.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
            planes[:, at : at + len(part)] = whole[:, :width].T
        at = self.bytes
        for plane in planes:
            self._put(plane)
        return Coded(rows=rows, width=width, differences=differences, at=at)

    def add_recurring(self, values: NDArray[np.int64]) -> Coded:
        """One more, of numbers that come again: by how far back the same one stood."""
        back = np.asarray(rows_back(np.ascontiguousarray(values).view(np.uint64).data))
        coded = self.add(back)
        return replace(coded, fresh=self.add(values[back == 0], differences=True))

    def _put(self, data: NDArray[np.uint8]) -> None:
        self._packer.add(data)
        self.bytes += len(data)

    def packed(self) -> bytes:
        """All of them as a zlib stream (RFC 1950). No more can be added."""
        return self._packer.packed()


def _folded(
    values: NDArray[Any], less: NDArray[Any] | None, differences: bool
) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """The numbers, or their differences, folded so that small ones are small: parts, with the place
    that each begins at."""
    before = 0
    for at in range(0, len(values), _PART):
        numbers = values[at : at + _PART].astype(np.int64)
        if less is not None:
            numbers -= less[at : at + _PART]
        if differences:
            last = int(numbers[-1])
            numbers = np.diff(numbers, prepend=np.int64(before))
            before = last
        yield at, ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
