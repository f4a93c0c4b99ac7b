"""The numbers to try, and the search for the largest one that fits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.commands.dryrun.numbers import Range, parse_range, search
from memreplay.errors import UsageError


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low = draw(st.integers(0, 300))
    return Range(low, low + draw(st.integers(0, 900)), draw(st.integers(1, 40)))


@given(numbers=ranges(), limit=st.integers(-1, 1300))
def test_largest_number_that_fits_is_found(numbers: Range, limit: int) -> None:
    """The oracle checks all numbers."""
    possible = range(numbers.low, numbers.high + 1, numbers.step)
    tried: dict[int, bool] = {}

    def fits(value: int) -> bool:
        assert value in possible
        assert value not in tried
        tried[value] = value <= limit
        return tried[value]

    search(numbers, fits)
    expected = max((one for one in possible if one <= limit), default=None)
    assert max((one for one, good in tried.items() if good), default=None) == expected
    # The next number was tried, unless it's above the limit.
    following = possible[0] if expected is None else expected + numbers.step
    assert tried.get(following) is False or following not in possible
    assert len(tried) <= 2 * math.log2(len(possible) + 1) + 3


def test_numbers_double_and_are_then_bisected() -> None:
    tried = []

    def fits(value: int) -> bool:
        tried.append(value)
        return value <= 48

    search(Range(), fits)
    assert tried == [1, 2, 4, 8, 16, 32, 64, 48, 56, 52, 50, 49]


@pytest.mark.parametrize("ends", [1, 8, 56])
def test_search_stops_if_it_is_not_known_whether_a_number_fits(ends: int) -> None:
    tried = []

    def fits(value: int) -> bool | None:
        tried.append(value)
        return None if value == ends else value <= 48

    search(Range(), fits)
    assert tried[-1] == ends
    assert tried.count(ends) == 1


def test_range_is_parsed() -> None:
    assert parse_range("1:512") == (1, 512, 1)
    assert parse_range("8:512:8") == (8, 512, 8)
    assert parse_range("7:7") == (7, 7, 1)
    for text in ("", "8", "1:2:3:4", "1:", ":4", "-1:4", "a:b", "1:2:x", "1:" + 30 * "9"):
        with pytest.raises(UsageError, match="isn't LOW:HIGH or LOW:HIGH:STEP"):
            parse_range(text)
    for text in ("9:8", "1:8:0"):
        with pytest.raises(UsageError, match="has no numbers"):
            parse_range(text)
