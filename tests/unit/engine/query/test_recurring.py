"""recurring: the distance to the previous equal number matches hand-made examples and a slow
search.
"""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query._recurring import rows_back


def back(numbers: list[int]) -> list[int]:
    found = memoryview(rows_back(array("Q", numbers))).tolist()
    assert isinstance(found, list)
    return found


def test_hand_made_example_has_the_expected_distances() -> None:
    assert back([5, 7, 5, 5, 0, 2**64 - 1, 7, 0, 2**64 - 1]) == [0, 0, 2, 1, 0, 0, 5, 3, 3]
    assert back([]) == []


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=1_000))
def test_distances_match_a_slow_search(numbers: list[int]) -> None:
    last: dict[int, int] = {}
    want = []
    for row, number in enumerate(numbers):
        want.append(row - last.get(number, row))
        last[number] = row
    assert back(numbers) == want


def test_numbers_must_have_the_same_type() -> None:
    with pytest.raises(ValueError, match="mismatch"):
        rows_back(array("I", [1]))
