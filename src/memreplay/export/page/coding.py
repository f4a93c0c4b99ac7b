"""Columns of integers as bytes for a page: differences, in planes, deflated.

A column becomes unsigned numbers (differences to the one before, where those are smaller, folded so
that -1 is 1 and 1 is 2), as wide as the largest of them needs. They are written in planes: the
lowest bytes of all numbers, then the next ones. Neighbours in a plane are alike, which deflate
makes use of; and a script puts the planes together again with one loop.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 2**53 - 1  # a larger number may be another one to a script
LEVEL = 4  # a higher one takes twice as long for a tenth less


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


class Columns:
    """The columns of a page, one behind the other."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(LEVEL)
        self._packed: list[bytes] = []
        self.bytes = 0
        """How many bytes the columns have before they are deflated."""

    def add(self, values: NDArray[Any], *, differences: bool = False) -> Coded:
        """One more, of any integers that fit an int64."""
        numbers = np.ascontiguousarray(values, dtype=np.int64)
        if differences and len(numbers):
            numbers = np.diff(numbers, prepend=numbers.dtype.type(0))
        folded = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        width = (int(folded.max()).bit_length() + 7) // 8 if len(folded) else 0
        at = self.bytes
        planes = folded.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
        for plane in range(width):
            self._put(np.ascontiguousarray(planes[:, plane]).tobytes())
        return Coded(rows=len(numbers), width=width, differences=differences, at=at)

    def _put(self, data: bytes) -> None:
        self._packed.append(self._packer.compress(data))
        self.bytes += len(data)

    def packed(self) -> bytes:
        """All of them as a zlib stream (RFC 1950). No more can be added."""
        return b"".join([*self._packed, self._packer.flush()])
