"""Addresses of a device as numbers that a script can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.export.page.coding import MOST

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PART = 1 << 15  # rows
_UNIT = 512  # what blocks of the allocator are multiples of


class Addresses(NamedTuple):
    """What addresses are counted from, and in which units."""

    base: int
    unit: int

    def numbers(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each address as a number from 1 on; 0 for one that is too far from the base for a number
        that a script can hold."""
        numbers = np.empty(len(addresses), dtype=np.int64)
        for at in range(0, len(addresses), _PART):
            found = (addresses[at : at + _PART] - np.uint64(self.base)) // np.uint64(self.unit)
            numbers[at : at + _PART] = np.where(found < MOST, found + np.uint64(1), np.uint64(0))
        return numbers


def addresses_of(*columns: NDArray[np.uint64]) -> Addresses:
    """From the lowest of all on."""
    there = [column for column in columns if len(column)]
    base = min((int(column.min()) for column in there), default=0)
    # Which bits any of them has, and which all have: those below a unit must be the same.
    some, every = base, base
    for column in there:
        some |= int(np.bitwise_or.reduce(column))
        every &= int(np.bitwise_and.reduce(column))
    return Addresses(base, 1 if (some ^ every) % _UNIT else _UNIT)
