"""Tests of export/page/coding.py, with a slow version of the page's decoder."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query._vectors import constant, counting, vector
from memreplay.errors import LimitError
from memreplay.export.page import coding
from memreplay.export.page.coding import MOST, Columns, check_exact
from memreplay.io.inline import Inline
from tests.unit.export.page.reading import decoded

# Differences of these have 53 bits, too.
NUMBERS = st.lists(st.integers(-MOST // 2, MOST // 2) | st.integers(-300, 300), max_size=40)


@given(st.lists(st.tuples(NUMBERS, st.booleans()), max_size=5))
def test_columns_round_trip(columns: list[tuple[list[int], bool]]) -> None:
    made = Columns()
    coded = [made.add(vector(numbers), differences=differences) for numbers, differences in columns]
    data = zlib.decompress(made.packed())
    assert len(data) == made.bytes == sum(one.rows * one.width for one in coded)
    assert [decoded(data, one) for one in coded] == [numbers for numbers, _ in columns]


@given(NUMBERS, st.booleans())
def test_long_columns_round_trip(numbers: list[int], differences: bool) -> None:
    made, numbers = Columns(), numbers * 100
    one = made.add(vector(numbers), differences=differences)
    assert decoded(zlib.decompress(made.packed()), one) == numbers


@given(st.lists(st.integers(0, 5) | st.integers(0, MOST // 2), max_size=40))
def test_column_of_repeated_numbers_stores_each_once(numbers: list[int]) -> None:
    made = Columns()
    one = made.add_recurring(vector(numbers, "Q"))
    data = zlib.decompress(made.packed())
    assert (one.rows, decoded(data, one)) == (len(numbers), numbers)
    assert one.fresh is not None
    assert decoded(data, one.fresh) == list(dict.fromkeys(numbers))


@pytest.mark.parametrize(
    "numbers, width",
    [([], 0), ([0, 0], 0), ([127, -128], 1), ([128], 2), ([-129], 2), ([1 << 38], 5)],
)
def test_columns_use_the_narrowest_type(numbers: list[int], width: int) -> None:
    assert Columns().add(vector(numbers)).width == width


def test_columns_of_other_types_become_numbers() -> None:
    made = Columns()
    one = made.add(vector([1, 255], "B"))
    other = made.add(constant(7, 3, "I"), differences=True)
    flags = made.add(vector([True, False], "?"))
    data = zlib.decompress(made.packed())
    found = [decoded(data, column) for column in (one, other, flags)]
    assert found == [[1, 255], [7, 7, 7], [1, 0]]


@pytest.mark.parametrize("number", [MOST + 1, -MOST - 1, 2**63 - 1, -(2**63)])
def test_numbers_beyond_a_scripts_precision_are_refused(number: int) -> None:
    with pytest.raises(LimitError, match="53 bits"):
        Columns().add(vector([0, number]))
    with pytest.raises(LimitError, match="53 bits"):
        check_exact(0, number)
    with pytest.raises(LimitError):
        Columns().add(vector([2**64 - 1], "Q"))
    with pytest.raises(LimitError):
        Columns().add(vector([MOST, -1]), differences=True)
    check_exact(MOST, -MOST)
    Columns().add(vector([MOST, -MOST]))


def test_many_events_are_compressed_less() -> None:
    # The highest bits of the second byte of a zlib stream give the compression level, 0 to 3.
    found = [Columns(events).packed()[1] >> 6 for events in (10, 500_000, 10_000_000)]
    assert found == [3, 1, 1]


@pytest.mark.parametrize("made", [ThreadPoolExecutor, lambda _threads: Inline()])
def test_background_thread_gives_the_same_bytes(
    made: Callable[[int], Executor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coding, "executor", made)
    beside, here = Columns(coding.LEVELS[0][0] + 1), Columns(coding.LEVELS[0][0] + 1)
    here._packer = coding.Packer(coding.LEVELS[1][1], beside=False)
    values = counting(70_000) * counting(70_000)
    for columns in (beside, here):
        for k in range(9):  # more columns than the queue holds
            columns.add(values[k:] + k)
    assert beside.packed() == here.packed()


def test_difference_of_two_columns_is_stored() -> None:
    made = Columns()
    one = made.add(vector([7, 1, 2]), less=vector([1, 2, 2], "B"))
    other = made.add(vector([7, 1, 2]), less=vector([1, 2, 2]), differences=True)
    data = zlib.decompress(made.packed())
    assert decoded(data, one) == decoded(data, other) == [6, -1, 0]
