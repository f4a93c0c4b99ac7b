"""Map a device's addresses to integers that JavaScript can represent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.export.page.coding import MOST

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PART = 1 << 15  # rows per chunk
_UNIT = 512  # the allocator rounds blocks to multiples of this


class Addresses(NamedTuple):
    """The base and unit of a page's addresses."""

    base: int
    unit: int

    def numbers(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return each address as a number from 1 on; 0 if it's too far from the base."""
        numbers = np.empty(len(addresses), dtype=np.int64)
        for at in range(0, len(addresses), _PART):
            found = (addresses[at : at + _PART] - np.uint64(self.base)) // np.uint64(self.unit)
            numbers[at : at + _PART] = np.where(found < MOST, found + np.uint64(1), np.uint64(0))
        return numbers


def addresses_of(*columns: NDArray[np.uint64]) -> Addresses:
    """Return a base and unit that fit these addresses. The base is the lowest one."""
    there = [column for column in columns if len(column)]
    base = min((int(column.min()) for column in there), default=0)
    # All addresses must have the same bits below a unit, so their OR and their AND must agree in
    # these bits.
    some, every = base, base
    for column in there:
        some |= int(np.bitwise_or.reduce(column))
        every &= int(np.bitwise_and.reduce(column))
    return Addresses(base, 1 if (some ^ every) % _UNIT else _UNIT)
