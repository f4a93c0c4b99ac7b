"""planes: the page's slow decoder reads back what they store, for every format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query._vectors import vector
from memreplay.engine.write._planes import Folded

NUMBERS = st.lists(st.integers(-300, 300) | st.integers(-(2**61), 2**61), max_size=30)


def read(planes: bytearray, rows: int, differences: bool) -> list[int]:
    """Return the numbers in planes."""
    found, before = [], 0
    for row in range(rows):
        folded = int.from_bytes(planes[row::rows], "little")
        number = -(folded + 1) // 2 if folded % 2 else folded // 2
        before = before + number if differences else number
        found.append(before)
    return found


@given(NUMBERS, NUMBERS, st.booleans(), st.integers(1, 60))
def test_planes_have_the_numbers(
    numbers: list[int], less: list[int], differences: bool, times: int
) -> None:
    n = min(len(numbers), len(less))
    first, second = numbers[:n] * times, less[:n] * times
    want = [a - b for a, b in zip(first, second, strict=True)]
    folded = Folded(vector(first), vector(second), differences)
    steps = [b - a for a, b in zip([0, *want], want, strict=False)] if differences else want
    assert folded.highest() == max((2 * abs(one) - (one < 0) for one in steps), default=0)
    width = (folded.highest().bit_length() + 7) // 8
    planes = bytearray(width * len(want))
    folded.split(width, planes)
    if width:
        assert read(planes, len(want), differences) == want
    else:
        assert not any(want)


@pytest.mark.parametrize("fmt", ["?", "B", "i", "I", "q", "Q"])
def test_all_formats_are_read(fmt: str) -> None:
    folded, planes = Folded(vector([1, 0, 1], fmt), None, False), bytearray(3)
    assert folded.highest() == 2
    folded.split(1, planes)
    assert planes == bytes([2, 0, 2])


def test_wrong_sizes_are_errors() -> None:
    with pytest.raises(ValueError, match="2 numbers to subtract from 1"):
        Folded(vector([1]), vector([1, 2]), False)
    for width, size in ((1, 2), (-1, 0), (9, 9)):
        with pytest.raises(ValueError, match="fit"):
            Folded(vector([1]), None, False).split(width, bytearray(size))
