"""Tests of export/page/addresses.py: addresses as numbers that a script can represent."""

from __future__ import annotations

import pytest

from memreplay.engine.query._vectors import Vector, vector
from memreplay.export.page.addresses import addresses_of


def column(*addresses: int) -> Vector:
    return vector(addresses, "Q")


@pytest.mark.parametrize(
    "columns, base, unit",
    [
        ((), 0, 1),
        (((),), 0, 1),
        (((0x7F00_0000_0200, 0x7F00_0000_0000),), 0x7F00_0000_0000, 512),
        (((0x7F00_0000_0200,), (0x7F00_0000_0600,)), 0x7F00_0000_0200, 512),
        (((0x7F00_0000_0200,), (0x7F00_0000_0208,)), 0x7F00_0000_0200, 1),
        (((2**64 - 512, 0),), 0, 512),
    ],
)
def test_numbers_start_at_the_lowest_address(
    columns: tuple[tuple[int, ...], ...], base: int, unit: int
) -> None:
    found = addresses_of(*(column(*one) for one in columns))
    assert found.base == base
    assert found.unit == (unit if any(columns) else 512)


@pytest.mark.parametrize(
    "addresses, numbers",
    [
        ((0x1000, 0x1200, 0x1000), [1, 2, 1]),
        ((8, 9), [1, 2]),
        ((0, 2**53 - 2, 2**53 - 1, 2**64 - 1, 3), [1, 2**53 - 1, 0, 0, 4]),
        ((0, 2**62, 2**63), [1, 0, 0]),
        ((0, 2**62 - 1024), [1, 2**53 - 1]),
    ],
)
def test_addresses_become_small_numbers(addresses: tuple[int, ...], numbers: list[int]) -> None:
    there = column(*addresses)
    found = addresses_of(there)
    assert found.numbers(there).tolist() == numbers
    for address, number in zip(addresses, numbers, strict=True):
        assert not number or found.base + (number - 1) * found.unit == address
