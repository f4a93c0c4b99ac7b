"""Tests of export/page/coding.py: what a page's script does, slowly."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.page.coding import Coded, Columns

NUMBERS = st.lists(st.integers(-(2**62), 2**62 - 1) | st.integers(-300, 300), max_size=40)


def decoded(data: bytes, one: Coded) -> list[int]:
    """The numbers, put together from their planes one by one."""
    found, before = [], 0
    for row in range(one.rows):
        folded = 0
        for plane in range(one.width):
            folded |= data[one.at + plane * one.rows + row] << (8 * plane)
        number = folded // 2 if folded % 2 == 0 else -(folded + 1) // 2
        before = before + number if one.differences else number
        found.append(before)
    return found


@given(st.lists(st.tuples(NUMBERS, st.booleans()), max_size=5))
def test_columns_come_back(columns: list[tuple[list[int], bool]]) -> None:
    made = Columns()
    coded = [
        made.add(np.array(numbers, dtype=np.int64), differences=differences)
        for numbers, differences in columns
        # Differences of these may be wider than an int64.
        if not differences or all(abs(one) < 2**61 for one in numbers)
    ]
    data = zlib.decompress(made.packed())
    assert len(data) == made.bytes == sum(one.rows * one.width for one in coded)
    kept = [
        numbers
        for numbers, differences in columns
        if not differences or all(abs(one) < 2**61 for one in numbers)
    ]
    assert [decoded(data, one) for one in coded] == kept


@pytest.mark.parametrize(
    "numbers, width",
    [([], 0), ([0, 0], 0), ([127, -128], 1), ([128], 2), ([-129], 2), ([1 << 38], 5)],
)
def test_columns_are_as_wide_as_they_must_be(numbers: list[int], width: int) -> None:
    assert Columns().add(np.array(numbers, dtype=np.int64)).width == width


def test_columns_of_other_types() -> None:
    made = Columns()
    one = made.add(np.array([1, 255], dtype=np.uint8))
    other = made.add(np.broadcast_to(np.uint32(7), 3), differences=True)
    data = zlib.decompress(made.packed())
    assert (decoded(data, one), decoded(data, other)) == ([1, 255], [7, 7, 7])
