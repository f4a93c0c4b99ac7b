"""churn: native size classes, medians and times. tests/unit/analysis/test_allocations.py compares
the rest with an oracle.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.query import _churn, _groups
from memreplay.engine.replay._timeline import Measure
from tests import build
from tests.build import START_US, SnapshotBuilder
from tests.oracle_allocations import in_classes, median

VALUES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 2**62 - 1),
    st.integers(0, 61).map(lambda k: 1 << k),
    st.integers(0, 61).map(lambda k: (1 << k) - 1),
    st.integers(0, 18).map(lambda k: 10**k),
    st.integers(0, 18).map(lambda k: 10**k - 1),
)


def measure_of(builder: SnapshotBuilder) -> Measure:
    return mr.open(build.dump(builder.build())).replay().measure().native


def by_size(measure: Measure) -> _churn._Allocations:
    return _churn.allocations(measure, _groups.size_keys(measure), "bytes", 0, 0)


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_sizes_match_the_oracle(sizes: list[int]) -> None:
    builder = SnapshotBuilder()
    for size in sizes:
        builder.alloc(512, size).free_completed(512, size)
    found = by_size(measure_of(builder))
    assert found["median_bytes"] == median(sizes)
    assert (found["min_bytes"], found["max_bytes"]) == (min(sizes), max(sizes))
    want = in_classes([(size, size) for size in sizes], 2)
    classes = [(least.bit_length() - 1 if least else 64, n, whole) for least, _, n, whole in want]
    assert found["sizes"] == sorted(classes)


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_lifetimes_match_the_oracle(lifetimes: list[int]) -> None:
    builder = SnapshotBuilder()
    # Make allocations at the same time, each freed this long after the start.
    for at in range(len(lifetimes)):
        builder.alloc(512 * (at + 1), 1, time_us=0)
    for at, lasted in enumerate(sorted(lifetimes)):
        builder.free_completed(512 * (at + 1), 1, time_us=lasted)
    found = by_size(measure_of(builder))
    assert found["median_us"] == median(lifetimes)
    want = in_classes([(lasted, 1) for lasted in lifetimes], 10)
    digits = [(len(str(most)) if most else 0, n, whole) for _, most, n, whole in want]
    assert found["lifetimes_us"] == digits
    assert found["whole"][9] == sum(lifetimes)
    assert found["times"] == (0, max(lifetimes))


def test_identical_or_missing_times_are_handled() -> None:
    builder = SnapshotBuilder().alloc(512, 1, time_us=START_US)
    builder.free_completed(512, 1, time_us=START_US)
    found = by_size(measure_of(builder))
    assert (found["lifetimes_us"], found["times"]) == ([(0, 1, 1)], (START_US, START_US))
    builder = SnapshotBuilder(times=False).alloc(512, 1).free_completed(512, 1)
    found = by_size(measure_of(builder))
    assert (found["lifetimes_us"], found["times"], found["untimed"]) == (None, None, (1, 1))


def test_allocations_that_need_new_segments_are_counted() -> None:
    builder = SnapshotBuilder().alloc(512, 1)
    builder.segment_alloc(1 << 30, 2 << 20).free_completed(512, 1).alloc(1 << 30, 5).alloc(512, 1)
    builder.event("segment_map", 1 << 31, 2 << 20).event("segment_map", 3 << 30, 2 << 20)
    builder.alloc(1 << 31, 5).event("segment_free", 1 << 30, 2 << 20).alloc(1024, 1)
    assert by_size(measure_of(builder))["grown"] == 2


def test_invalid_arguments_are_rejected() -> None:
    measure = measure_of(SnapshotBuilder().alloc(512, 1))
    other = measure_of(SnapshotBuilder().alloc(512, 1))
    keys = _groups.size_keys(measure)
    _churn.allocations(measure, keys, "bytes", 0, 0)
    with pytest.raises(ValueError, match="another replay"):
        _churn.allocations(other, keys, "bytes", 0, 0)
    with pytest.raises(KeyError):
        _churn.allocations(measure, keys, "colour", 0, 0)
    with pytest.raises(TypeError):
        _churn.allocations(measure, None, "bytes", 0, 0)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        _churn.allocations(measure, keys, "bytes", 0, -1)


def test_groups_known_from_other_devices_change_nothing() -> None:
    builder = SnapshotBuilder()
    for i in range(300):
        builder.alloc(512 * (i + 1), i, frames=[(f"f{i % 7}", "a.py", i % 50)])
    measure = measure_of(builder)
    none = bytes(measure.replay.tables.n_strings)
    fresh, met = (_groups.stack_keys(measure.replay, "function", none, none) for _ in range(2))
    met.find_all()
    found = [_churn.allocations(measure, keys, "count", 0, 0) for keys in (fresh, met, met)]
    assert found[0] == found[1] == found[2]
    assert [row[1] for row in found[0]["rows"]] == [43, 43, 43, 43, 43, 43, 42]
