"""Map a device's addresses to integers that JavaScript can represent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.engine.query._vectors import chosen, zeros
from memreplay.export.page.coding import MOST

if TYPE_CHECKING:
    from memreplay.engine.query._vectors import Vector

_PART = 1 << 15  # rows per chunk
_UNIT_BITS = 9  # the allocator rounds blocks to multiples of 512
_UNIT = 1 << _UNIT_BITS


class Addresses(NamedTuple):
    """The base and unit of a page's addresses."""

    base: int
    unit: int

    def numbers(self, addresses: Vector) -> Vector:
        """Return each address as a number from 1 on; 0 if it's too far from the base."""
        numbers = zeros(len(addresses), "Q")
        bits = _UNIT_BITS if self.unit == _UNIT else 0
        for at in range(0, len(addresses), _PART):
            found = (addresses[at : at + _PART] - self.base) >> bits
            numbers[at : at + _PART] = chosen(found < MOST, found + 1, 0)
        return numbers


def addresses_of(*columns: Vector) -> Addresses:
    """Return a base and unit that fit these addresses. The base is the lowest one."""
    there = [column for column in columns if len(column)]
    base = min((column.min() for column in there), default=0)
    # All addresses must have the same bits below a unit, so their OR and their AND must agree in
    # these bits.
    some, every = base, base
    for column in there:
        some |= column.any_bits()
        every &= column.all_bits()
    return Addresses(base, 1 if (some ^ every) % _UNIT else _UNIT)
