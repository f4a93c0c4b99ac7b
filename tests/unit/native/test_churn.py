"""churn: classes, medians and the clock, natively; tests/unit/analysis/test_allocations.py has the
rest, against an oracle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay import _churn
from memreplay._timeline import Measure
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
    return _churn.allocations(measure, "size", b"", b"", None, "bytes", 0, 0)


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_sizes(sizes: list[int]) -> None:
    builder = SnapshotBuilder()
    for size in sizes:
        builder.alloc(512, size).free_completed(512, size)
    found = by_size(measure_of(builder))
    assert found["median_bytes"] == median(sizes)
    assert (found["min_bytes"], found["max_bytes"]) == (min(sizes), max(sizes))
    want = in_classes([(size, size) for size in sizes], 2)
    assert found["sizes"] == [(most.bit_length(), n, whole) for _, most, n, whole in want]


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_lifetimes_in_microseconds(lifetimes: list[int]) -> None:
    builder = SnapshotBuilder()
    # All at once, then freed one after the other, each so long after the start.
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


def test_one_time_for_all() -> None:
    builder = SnapshotBuilder().alloc(512, 1, time_us=START_US)
    builder.free_completed(512, 1, time_us=START_US)
    found = by_size(measure_of(builder))
    assert (found["lifetimes_us"], found["times"]) == ([(0, 1, 1)], (START_US, START_US))
    builder = SnapshotBuilder(times=False).alloc(512, 1).free_completed(512, 1)
    found = by_size(measure_of(builder))
    assert (found["lifetimes_us"], found["times"], found["untimed"]) == (None, None, (1, 1))


def test_segments_that_grow() -> None:
    builder = SnapshotBuilder().alloc(512, 1)
    builder.segment_alloc(1 << 30, 2 << 20).free_completed(512, 1).alloc(1 << 30, 5).alloc(512, 1)
    builder.event("segment_map", 1 << 31, 2 << 20).event("segment_map", 3 << 30, 2 << 20)
    builder.alloc(1 << 31, 5).event("segment_free", 1 << 30, 2 << 20).alloc(1024, 1)
    assert by_size(measure_of(builder))["grown"] == 2


def test_what_is_refused() -> None:
    builder = SnapshotBuilder().alloc(512, 1)
    snap = mr.open(build.dump(builder.build()))
    measure = snap.replay().measure().native
    zero = bytes(snap.native.n_strings)

    def ask(
        by: str = "file", ranks: bytes = zero, classes: object = None, sort: str = "bytes"
    ) -> None:
        _churn.allocations(measure, by, ranks, ranks, classes, sort, 0, 0)  # type: ignore[arg-type]

    ask()
    with pytest.raises(ValueError, match="one byte a string"):
        ask(ranks=zero[:-1])
    with pytest.raises(KeyError):
        ask(by="colour")
    with pytest.raises(KeyError):
        ask(sort="colour")
    with pytest.raises(ValueError, match="which classes"):
        ask(by="class")
    with pytest.raises(ValueError, match="u32 an event"):
        ask(by="class", classes=measure.weights())
    other = mr.open(build.dump(SnapshotBuilder().alloc(512, 1).alloc(1024, 1).build())).replay()
    with pytest.raises(ValueError, match="u32 an event"):
        ask(by="class", classes=other.classes("stream").of_events())
    ask(by="class", classes=snap.replay().classes("stream").of_events())
    with pytest.raises(OverflowError):
        _churn.allocations(measure, "size", b"", b"", None, "bytes", 0, -1)
