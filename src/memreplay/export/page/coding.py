"""Encode integer columns for the page: differences, byte planes, deflate.

A column is turned into unsigned numbers with as many bytes as the largest one needs. If the
differences between rows are smaller, these are stored instead, in zigzag encoding: -1 becomes 1,
and 1 becomes 2. The numbers are written in planes: first the lowest byte of each number, then the
next byte, and so on. Adjacent bytes in a plane are similar, so they compress well, and a script
reassembles the numbers in one loop.

In a column of recurring numbers (e.g. addresses), a number is stored as the distance back to its
last occurrence. New numbers go to a second column.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.engine.query._recurring import rows_back
from memreplay.engine.query._vectors import vector
from memreplay.engine.write._planes import Folded
from memreplay.errors import LimitError
from memreplay.io.parallel import executor
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memreplay.engine.query._vectors import Vector

MOST = 2**53 - 1  # JavaScript's Number.MAX_SAFE_INTEGER
_MOST_WAITING = 4  # planes waiting to be compressed, each with one byte per allocation
# Higher levels take longer and gain little, so they are only used for small files.
LEVELS = ((100_000, 9), (1_000_000, 5))  # (maximum number of events, level)
LEVEL_OF_MANY = 2


def check_exact(*numbers: int) -> None:
    """Raise LimitError for numbers above Number.MAX_SAFE_INTEGER."""
    if any(abs(number) > MOST for number in numbers):
        raise LimitError(
            "a number has more than 53 bits, which browsers can't count exactly",
            hint="use memreplay report, which has no such limit",
        )


class Coded(Record, frozen=True):
    """Where a column's bytes are, and how they are encoded."""

    rows: int
    """Number of values."""
    width: int
    """Number of planes, 0 to 8; 0 if all values are 0."""
    differences: bool
    """Whether each value is stored as the difference from the previous one (the first one from 0).
    """
    at: int
    """The planes' offset in the inflated bytes."""
    fresh: Coded | None = None
    """If set, values are distances back to the same number; 0 means a new number, which is the next
    value in `fresh`.
    """


class Packer:
    """Deflates data incrementally; with `beside`, on another thread if one can start."""

    def __init__(self, level: int, *, beside: bool) -> None:
        self._stream = zlib.compressobj(level)
        self._thread = executor(1) if beside else None
        self._waiting: deque[Future[bytes]] = deque()
        self._packed: list[bytes] = []

    def add(self, data: memoryview) -> None:
        """Add data. It may be changed after this call."""
        if self._thread is None:
            self._packed.append(self._stream.compress(data))
            return
        while len(self._waiting) >= _MOST_WAITING:
            self._packed.append(self._waiting.popleft().result())
        self._waiting.append(self._thread.submit(self._stream.compress, data.tobytes()))

    def packed(self) -> bytes:
        """Return the zlib stream (RFC 1950) and finish."""
        if self._thread is not None:
            self._packed += [one.result() for one in self._waiting]
            self._thread.shutdown()
        return b"".join([*self._packed, self._stream.flush()])


class Columns:
    """A page's columns in sequence. The compression level depends on the number of events."""

    def __init__(self, events: int = 0) -> None:
        level = next((level for most, level in LEVELS if events <= most), LEVEL_OF_MANY)
        self._packer = Packer(level, beside=events > LEVELS[0][0])
        self._scratch = bytearray()
        self.bytes = 0
        """Size of the columns before compression."""

    def add(
        self,
        values: Vector,
        *,
        less: Vector | None = None,
        differences: bool = False,
    ) -> Coded:
        """Add a column of arbitrary integers, after subtracting the column `less`.

        Raises LimitError for numbers that JavaScript can't hold.
        """
        rows = len(values)
        if rows:
            check_exact(values.min(), values.max())
        folded = Folded(values, less, differences)
        highest = folded.highest()
        check_exact((highest + 1) >> 1)
        width = (highest.bit_length() + 7) // 8
        if len(self._scratch) < width * rows:
            self._scratch = bytearray(width * rows)
        planes = memoryview(self._scratch)[: width * rows]
        folded.split(width, planes)
        at = self.bytes
        for plane in range(width):
            self._put(planes[plane * rows : (plane + 1) * rows])
        return Coded(rows=rows, width=width, differences=differences, at=at)

    def add_recurring(self, values: Vector) -> Coded:
        """Add a column of recurring numbers (u64) as distances back to the same number."""
        back = vector(rows_back(values))
        coded = self.add(back)
        return replace(coded, fresh=self.add(values[back == 0], differences=True))

    def _put(self, data: memoryview) -> None:
        self._packer.add(data)
        self.bytes += len(data)

    def packed(self) -> bytes:
        """Return the zlib stream (RFC 1950) and finish."""
        return self._packer.packed()
