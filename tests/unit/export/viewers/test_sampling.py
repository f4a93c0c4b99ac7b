"""sampling: times never decrease, and samples keep every spike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query._vectors import counting, vector
from memreplay.export.viewers.sampling import US, event_ns, is_timed, sampled, untimed_note
from tests import views
from tests.build import START_US, SnapshotBuilder
from tests.strategies import traces

values = st.lists(st.integers(0, 5), min_size=1, max_size=60)


@given(values, st.integers(0, 5), st.integers(1, 8), st.data())
def test_every_bucket_keeps_its_extremes(
    series: list[int], start: int, points: int, data: st.DataObject
) -> None:
    at = sorted(data.draw(st.lists(st.integers(0, 40), min_size=len(series), max_size=len(series))))
    found = sampled(vector(series), start, vector(at), points).tolist()
    assert found == sorted(set(found))
    assert found[-1] == len(series) - 1
    whole = at[-1] - at[0] + 1
    # Between two samples, viewers draw the first one's value.
    for part in range(points):
        low, high = at[0] + whole * part // points, at[0] + whole * (part + 1) // points
        inside = [i for i, t in enumerate(at) if low <= t < high]
        if inside:
            before = [series[i] for i in found if i < inside[0]][-1:] or [start]
            shown = {series[i] for i in found if i in inside} | set(before)
            real = {series[i] for i in inside}
            assert max(real) in shown
            assert min(real) in shown
            assert ([series[i] for i in found if i <= inside[-1]][-1:] or [start]) == [
                series[inside[-1]]
            ]


@given(values, st.integers(0, 5))
def test_all_events_match_the_series(series: list[int], start: int) -> None:
    found = sampled(vector(series), start, counting(len(series)), 0).tolist()
    drawn, at = [], start
    for i, value in enumerate(series):
        at = value if i in found else at
        drawn.append(at)
    assert drawn == series


@pytest.mark.parametrize("points", [1, 2, 5])
def test_few_events_are_all_kept(points: int) -> None:
    # The largest number of values that these buckets can select; with one more, some are left out.
    for count in (3 * points, 3 * points + 1):
        rising = counting(count) + 1
        found = sampled(rising, 0, rising, points).tolist()
        assert (found == list(range(count))) is (count <= 3 * points)


def test_empty_series_has_no_samples() -> None:
    empty = vector([])
    assert sampled(empty, 3, empty, 10).tolist() == []


@given(traces())
def test_times_never_decrease_and_keep_microseconds(snapshot: object) -> None:
    snap = views.opened(snapshot)
    for device in snap.devices:
        replay = snap.replay(device)
        if not is_timed(replay):
            want = [(i + 1) * US for i in range(replay.events)]
            assert event_ns(replay, None).tolist() == want
            continue
        assert replay.time_range is not None
        assert replay.clock is not None
        first = replay.time_range[0]
        found = event_ns(replay, first - 1).tolist()
        assert found == sorted(found)
        clock = [max(first, one) for one in replay.clock]
        assert [one // US for one in found] == [one - first + 1 for one in clock]
        for i in range(1, len(clock)):
            assert found[i] > found[i - 1]  # few enough share a microsecond


def test_missing_or_equal_times_are_noted() -> None:
    made = SnapshotBuilder(times=False).alloc(0x1000, 1)
    words = "device 0: its events have no times, so each event takes 1 us"
    assert untimed_note(views.opened(made.build()).replay(0)) == (words,)
    one = views.opened(SnapshotBuilder().alloc(0x1000, 1).build()).replay(0)
    assert untimed_note(one) == (
        "device 0: its events all have the same time, so each event takes 1 us",
    )
    assert untimed_note(views.opened(views.everything()).replay(0)) == ()


def test_many_events_of_one_microsecond_stay_in_order() -> None:
    made = SnapshotBuilder().alloc(1 << 20, 1, time_us=START_US - 1)
    for i in range(1500):
        made.alloc((i + 2) << 20, 1, time_us=START_US)
    found = event_ns(views.opened(made.build()).replay(0), START_US - 1)
    assert (found[0], found[1], found[2], found[-1]) == (0, 1000, 1001, 1999)
    assert found.tolist() == sorted(found)


@pytest.mark.parametrize("times", [(-(2**63) + 2, 2**63 - 1), (0, 2**62)])
def test_extreme_times_stay_in_order(times: tuple[int, int]) -> None:
    made = SnapshotBuilder()
    for i, time in enumerate(times):
        made.alloc((i + 1) << 20, 1, time_us=time)
    found = event_ns(views.opened(made.build()).replay(0), times[0])
    assert found[0] == 0
    assert 2**60 < found[1] <= 2**61
