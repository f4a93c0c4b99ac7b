"""series: extremes, means, separate maxima and ranges of short series."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.read.column import Column
from memreplay.engine.replay import _measures, _timeline
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import A, column, replay


def series(*values: int, times: tuple[int, ...] | None = None) -> tuple[Column, Column | None]:
    """Return the requested bytes of a trace, with these values: one address is allocated again and
    again.
    """
    b = SnapshotBuilder(times=times is not None)
    for i, value in enumerate(values):
        b.alloc(A, value, time_us=times[i] if times is not None else None)
    made = replay(b)
    usage = _timeline.requested_measure(made).usage()
    assert column(usage) == list(values)
    return usage, made.times()


def extremes(
    *values: int, start: int = 0, times: tuple[int, ...] | None = None
) -> tuple[int, int, int, int, int, float | None]:
    usage, at = series(*values, times=times)
    return _measures.extremes(usage, start, at)


def test_first_of_equal_extremes_wins() -> None:
    assert extremes(5, 9, 9, 2, 2, 4, start=5) == (9, 1, 2, 3, 4, None)
    assert extremes(9, 2, 9, start=9) == (9, -1, 2, 1, 9, None)
    assert extremes(9, 2, start=2) == (9, 0, 2, -1, 2, None)


def test_series_without_events_has_only_its_start_value() -> None:
    assert extremes(start=7) == (7, -1, 7, -1, 7, None)
    usage, _ = series()
    assert _measures.maxima(usage, 7, 1, 5) == [(7, -1)]


def test_mean_is_weighted_by_time() -> None:
    assert extremes(10, 20, 40, times=(0, 1, 4))[5] == (10 * 1 + 20 * 3) / 4
    assert extremes(10, 20, 40, times=(0, 0, 4))[5] == 20  # the last value at a moment counts
    assert extremes(10, 20, 40, 7, times=(5, 4, 6, 6))[5] == 20  # decreasing times
    assert extremes(10, 20, times=(5, 5))[5] is None
    assert extremes(10, 20, times=(6, 5))[5] is None
    assert extremes(10, times=(6,))[5] is None


def test_mean_of_times_far_apart_does_not_overflow() -> None:
    assert extremes(10, 20, 30, times=(-(2**62), 2**62, 2**62))[5] == 10


def test_events_without_a_time_have_the_previous_events_time() -> None:
    b = SnapshotBuilder().alloc(A, 10, time_us=1).alloc(A, 30, time_us=2).drop("time_us")
    b.alloc(A, 50, time_us=3)
    made = replay(b)
    usage = _timeline.requested_measure(made).usage()
    assert _measures.extremes(usage, 0, made.times())[5] == 30


@pytest.mark.parametrize(
    "values, start, drop, want",
    [
        ((1, 9, 2, 7, 1), 0, 5, [(9, 1), (7, 3)]),
        ((1, 9, 2, 7, 1), 0, 6, [(9, 1)]),  # 2 to 7 is a rise of 5
        ((1, 9, 5, 7, 1), 0, 3, [(9, 1)]),  # 5 to 7 is a ripple
        ((1, 9, 8, 9, 1), 0, 2, [(9, 1)]),  # a plateau with a ripple: its first event
        ((1, 9, 7, 9, 1), 0, 2, [(9, 1), (9, 3)]),
        ((3, 1, 8), 9, 2, [(9, -1), (8, 2)]),  # the start, and a maximum without a decrease
        ((9, 8, 7, 6, 5), 0, 1, [(9, 0)]),
        ((1, 2, 3), 0, 1, [(3, 2)]),
        ((4, 4), 4, 0, [(4, -1)]),  # a decrease of 0 separates nothing
        ((1, 9, 1, 20, 1, 15, 1), 0, 5, [(20, 3), (15, 5), (9, 1)]),
        ((1, 9, 1), 0, 2**64 - 1, [(9, 1)]),
    ],
)
def test_maxima_are_separated_by_a_decrease(
    values: tuple[int, ...], start: int, drop: int, want: list[tuple[int, int]]
) -> None:
    usage, _ = series(*values)
    assert _measures.maxima(usage, start, drop, 9) == want
    assert _measures.maxima(usage, start, drop, 1) == want[:1]
    assert _measures.maxima(usage, start, drop, 2**70) == want
    for none in (0, -1, -(2**70)):
        assert _measures.maxima(usage, start, drop, none) == []


def test_decreases_may_exceed_63_bits() -> None:
    usage, _ = series(1, 2)
    assert _measures.maxima(usage, -(2**63), 2**63, 9) == [(2, 1)]
    assert _measures.maxima(usage, 2**63 - 1, 2**63 - 3, 9) == [(2**63 - 1, -1)]


def test_columns_that_are_not_series_are_refused() -> None:
    usage, times = series(1, 2, times=(1, 2))
    match = replay(SnapshotBuilder().alloc(A, 1)).match()  # a column with 4 bytes per event
    fields = replay(SnapshotBuilder().free_completed(A, 1)).carried("size")  # among others
    for wrong in (match, fields, Column.__new__(Column)):
        with pytest.raises(ValueError, match="one i64 per event"):
            _measures.extremes(wrong, 0)
        with pytest.raises(ValueError, match="one i64 per event"):
            _measures.extremes(usage, 0, wrong)
        with pytest.raises(ValueError, match="one i64 per event"):
            _measures.maxima(wrong, 0, 1, 1)
    short, _ = series(1)
    with pytest.raises(ValueError, match="one number per event"):
        _measures.extremes(usage, 0, short)
    for nothing in (None, b"12345678", [1]):
        with pytest.raises(TypeError):
            _measures.extremes(nothing, 0)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            _measures.maxima(nothing, 0, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        _measures.extremes(usage, 2**63, times)
    with pytest.raises(OverflowError):
        _measures.maxima(usage, 0, -1, 1)


# ---- ranges

Ranges = list[tuple[int, int, int]]


def ranges(usage: Column, start: int, bounds: list[int]) -> Ranges:
    found = _measures.ranges(usage, start, array("q", bounds))
    return list(zip(*map(column, found), strict=True))


def slow_ranges(values: list[int], start: int, bounds: list[int]) -> Ranges:
    found = []
    for first, stop in pairwise(bounds):
        within = values[first:stop]
        if within:
            found.append((min(within), max(within), first + within.index(max(within))))
        else:
            value = values[first - 1] if first else start
            found.append((value, value, first - 1))
    return found


# Draw a few distinct values, so that many are equal, and all sizes.
VALUES = st.integers(1, 4) | st.integers(0, 2**62 - 1)


@given(
    st.lists(VALUES, max_size=200) | st.lists(st.integers(1, 3), min_size=90, max_size=200),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.integers(0, 2**16), min_size=1, max_size=12),
)
def test_ranges_match_plain_python(values: list[int], start: int, cuts: list[int]) -> None:
    usage, _ = series(*values)
    some = sorted(cut % (len(values) + 1) for cut in cuts)
    for bounds in (some, [0, len(values)], [*range(len(values) + 1)]):
        assert ranges(usage, start, bounds) == slow_ranges(values, start, bounds)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 63, 64, 65, 100])
def test_extremes_are_found_at_every_position_of_a_range(length: int) -> None:
    for first in (0, 3):
        for at in range(length):
            high = [5] * first + [7] * length
            low = list(high)
            high[first + at], low[first + at] = 9, 2
            if at + 1 < length:
                high[-1] = 9  # an equal maximum later
            bounds = [first, first + length]
            assert ranges(series(*high)[0], 0, bounds) == slow_ranges(high, 0, bounds)
            assert ranges(series(*low)[0], 0, bounds) == slow_ranges(low, 0, bounds)


def test_ranges_without_events_have_the_previous_value() -> None:
    usage, _ = series(5, 9, 2)
    assert ranges(usage, -7, [0, 0, 2, 2, 3, 3]) == [
        (-7, -7, -1),
        (5, 9, 1),
        (9, 9, 1),
        (2, 2, 2),
        (2, 2, 2),
    ]
    assert ranges(usage, 0, [2]) == []
    assert ranges(series()[0], 4, [0, 0]) == [(4, 4, -1)]


@pytest.mark.parametrize(
    "bounds, wrong",
    [
        ([-1, 2], 0),
        ([4, 4], 0),
        ([-(2**63)], 0),
        ([2**63 - 1, 2**63 - 1], 0),
        ([0, 4], 1),
        ([0, 2, 1], 2),
        ([0, 3, 2**63 - 1], 2),
        ([0, 1, -1, 3], 2),
    ],
)
def test_invalid_bounds_are_refused(bounds: list[int], wrong: int) -> None:
    usage, _ = series(5, 9, 2)
    with pytest.raises(ValueError, match=f"^bound {wrong} isn't in order or isn't from 0 to 3$"):
        ranges(usage, 0, bounds)


def test_empty_or_mistyped_bounds_are_refused() -> None:
    usage, _ = series(5, 9, 2)
    with pytest.raises(ValueError, match="bounds is empty"):
        ranges(usage, 0, [])
    for wrong in (b"12345678", array("i", [0, 1]), array("d", [0, 1])):
        with pytest.raises(ValueError, match="mismatch"):
            _measures.ranges(usage, 0, wrong)
    for nothing in (None, [0, 1]):
        with pytest.raises(TypeError):
            _measures.ranges(usage, 0, nothing)  # type: ignore[arg-type]
    match = replay(SnapshotBuilder().alloc(A, 1)).match()  # a column with 4 bytes per event
    with pytest.raises(ValueError, match="one i64 per event"):
        _measures.ranges(match, 0, array("q", [0, 1]))
    with pytest.raises(OverflowError):
        _measures.ranges(usage, 2**63, array("q", [0, 1]))
