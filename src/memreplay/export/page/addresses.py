"""Addresses of a device as numbers that a script can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.export.page.coding import MOST

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNIT = 512  # what blocks of the allocator are multiples of


class Addresses(NamedTuple):
    """What addresses are counted from, and in which units."""

    base: int
    unit: int

    def numbers(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each address as a number from 1 on; 0 for one that is too far from the base for a number
        that a script can hold."""
        found = (addresses - np.uint64(self.base)) // np.uint64(self.unit)
        numbers: NDArray[np.int64] = (found + np.uint64(1)).astype(np.int64)
        numbers[found >= MOST] = 0
        return numbers


def addresses_of(*columns: NDArray[np.uint64]) -> Addresses:
    """From the lowest of all on."""
    there = [column for column in columns if len(column)]
    base = min((int(column.min()) for column in there), default=0)
    every = all(not np.any((column - np.uint64(base)) & np.uint64(_UNIT - 1)) for column in there)
    return Addresses(base, _UNIT if every else 1)
