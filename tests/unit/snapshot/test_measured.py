"""measured: every measure of a small trace, computed by hand, also for a pool, a stream and a
range.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from msgspec import UNSET

import memreplay as mr
from memreplay.engine.query import _groups
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES, MeasureName
from memreplay.snapshot.replay import Usage
from tests import build
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder

MIB = 2**20
A, B, C = 0x7F00_0000_0000, 0x7F00_4000_0000, 0x7F00_8000_0000


def by_hand() -> SnapshotBuilder:
    """Add a small segment. A large one, on stream 7 and in a pool, already has two blocks."""
    b = SnapshotBuilder(start_us=1_000)
    b.segment_alloc(A, 2 * MIB, time_us=1_000, pool_id=(0, 0))
    b.alloc(A, 100, time_us=1_010, pool_id=(0, 0))
    b.free_requested(B, 3 * MIB, time_us=1_020, stream=7, pool_id=(0, 1))
    b.alloc(A + 512, 600, time_us=1_020, pool_id=(0, 0))
    b.free_completed(B, 3 * MIB, time_us=1_040, stream=7, pool_id=(0, 1))
    b.free_requested(A, 100, time_us=1_050, pool_id=(0, 0))
    b.segment(
        A,
        2 * MIB,
        segment_type="small",
        blocks=[
            b.block(A, 512, 100, "active_pending_free"),
            b.block(A + 512, 1024, 600),
            b.block(A + 1536, 2 * MIB - 1536, 0, "inactive"),
        ],
    )
    kept = b.block(B + 3 * MIB, 17 * MIB, 16 * MIB + 5)
    gone = b.block(B, 3 * MIB, 0, "inactive")
    return b.segment(B, 20 * MIB, stream=7, pool=(0, 1), blocks=[gone, kept])


def replay(builder: SnapshotBuilder | None = None, **bounds: Any) -> mr.Replay:
    return mr.open(build.dump((builder or by_hand()).build()), **bounds).replay()


def series(usage: Usage) -> list[int]:
    return [usage.start_bytes, *usage.series.tolist()]


KEPT, LIVE = 16 * MIB + 5, 19 * MIB + 5
SERIES: dict[MeasureName, list[int]] = {
    "requested": [LIVE, LIVE, LIVE + 100, LIVE + 100, LIVE + 700, KEPT + 700, KEPT + 700],
    "held": [LIVE, LIVE, LIVE + 100, KEPT + 100, KEPT + 700, KEPT + 700, KEPT + 600],
    "active": [
        *(20 * MIB, 20 * MIB, 20 * MIB + 512, 20 * MIB + 512),
        *(20 * MIB + 1536, 17 * MIB + 1536, 17 * MIB + 1536),
    ],
    "allocated": [
        *(20 * MIB, 20 * MIB, 20 * MIB + 512, 17 * MIB + 512),
        *(17 * MIB + 1536, 17 * MIB + 1536, 17 * MIB + 1024),
    ],
    "reserved": [20 * MIB] + [22 * MIB] * 6,
}


def test_measure_names_are_unique() -> None:
    assert set(SERIES) == set(MEASURES) == set(get_args(MeasureName))


@pytest.mark.parametrize("measure", MEASURES)
def test_series_and_extremes_match_those_worked_out_by_hand(measure: MeasureName) -> None:
    usage, want = replay().measure(measure), SERIES[measure]
    assert series(usage) == want
    assert usage.series.dtype == np.int64
    assert not usage.series.flags.writeable
    assert usage.end_bytes == want[-1]
    assert usage.reconciliation_bytes == 0
    assert measure in repr(usage)
    times = [1_000, 1_000, 1_010, 1_020, 1_020, 1_040, 1_050]
    high, low = want.index(max(want)), want.index(min(want))
    assert usage.peak == mr.PeakPoint(max(want), high - 1, times[high])
    assert usage.minimum == mr.PeakPoint(min(want), low - 1, times[low])
    weighed = want[1] * 10 + want[2] * 10 + want[4] * 20 + want[5] * 10
    assert usage.mean_bytes == round(weighed / 50)
    assert usage.peaks(3)[0] == usage.peak


@pytest.mark.parametrize("measure", [one for one in MEASURES if one != "reserved"])
def test_live_sets_and_lifetimes_add_up(measure: MeasureName) -> None:
    usage = replay().measure(measure)
    for event, want in enumerate(SERIES[measure], -1):
        live = usage.live_at(event=event)
        assert live.bytes == live.size.sum() == want
        assert usage.carried_held(event) == live.size[live.alloc_event < 0].sum()
    lifetimes = usage.lifetimes
    assert lifetimes.alloc_event.tolist() == [1, 3, -1, -1]
    assert lifetimes.address.tolist() == [A, A + 512, B, B + 3 * MIB]
    held = measure in ("held", "allocated")
    assert lifetimes.free_event.tolist() == [5 if held else -1, -1, 2 if held else 4, -1]
    made, freed = usage.lifetime_events()
    assert (made.tolist(), freed.tolist()) == (
        lifetimes.alloc_event.tolist(),
        lifetimes.free_event.tolist(),
    )
    blocks = measure in ("active", "allocated")
    in_blocks, in_requests = [512, 1024, 3 * MIB, 17 * MIB], [100, 600, 3 * MIB, KEPT]
    assert lifetimes.size.tolist() == (in_blocks if blocks else in_requests)


def test_blocks_released_earlier_are_not_held_allocations() -> None:
    b = SnapshotBuilder().free_completed(A, 5).alloc(B, 1).free(C, 2)
    held = replay(b).measure("held")
    assert held.lifetimes.address.tolist() == [B, C]
    assert held.live_at(event=-1).address.tolist() == [C]
    assert len(replay(b).lifetimes) == 3


def test_measure_of_one_pool_or_stream_has_only_its_blocks() -> None:
    found = replay()
    for part in ({"pool": (0, 1)}, {"stream": 7}, {"pool": (0, 1), "stream": 7}):
        usage = found.measure("requested", **part)
        assert series(usage) == [LIVE] * 5 + [KEPT] * 2
        assert usage.peak == mr.PeakPoint(LIVE, -1, 1_000)
        assert usage.end_bytes == KEPT
        assert usage.reconciliation_bytes is None
        assert usage.live_at(event=4).address.tolist() == [B + 3 * MIB]
        assert usage.lifetimes.address.tolist() == [B, B + 3 * MIB]
    assert series(found.measure("allocated", pool=(0, 0))) == [0, 0, 512, 512, 1536, 1536, 1024]
    assert series(found.measure("active", pool=(0, 0), stream=7)) == [0] * 7
    # -
    assert series(found.measure()) == SERIES["requested"]
    assert found.measure("held", stream=7).series is found.measure("held", stream=7).series


def test_parts_of_held_bytes_match_those_worked_out_by_hand() -> None:
    usage = replay().measure("held")
    (large, small) = usage.parts("stream", 3)
    assert (large.stream, large.pool, small.stream) == (7, UNSET, 0)
    assert (large.bytes, large.start_bytes, large.end_bytes) == (KEPT, LIVE, KEPT)
    assert (large.peak_bytes, large.peak_event, large.count) == (LIVE, -1, 1)
    assert (small.bytes, small.start_bytes, small.end_bytes) == (700, 0, 600)
    assert (small.peak_bytes, small.peak_event, small.count) == (700, 3, 2)
    assert (small.reserved_bytes, small.reserved_peak_bytes) == (2 * MIB, 2 * MIB)
    assert (small.reserved_peak_event, small.reserved_end_bytes) == (0, 2 * MIB)
    assert (large.reserved_bytes, large.reserved_peak_event) == (20 * MIB, -1)
    assert [part.pool for part in usage.parts("pool", -1)] == [(0, 1), (0, 0)]
    reserved = replay().measure("reserved").parts("pool", 0)
    assert [(part.pool, part.bytes) for part in reserved] == [((0, 1), 20 * MIB), ((0, 0), 2 * MIB)]


def test_parts_of_one_pool_or_stream_include_its_reserved_bytes() -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB, pool_id=(0, 0)).alloc(A, 5, pool_id=(0, 0))
    b.segment_alloc(B, 20 * MIB, pool_id=(0, 1)).alloc(B, 7 * MIB, pool_id=(0, 1))
    b.segment(A, 2 * MIB, blocks=[b.block(A, 512, 5)])
    b.segment(B, 20 * MIB, pool=(0, 1), blocks=[b.block(B, 7 * MIB)])
    kept = b.block(C, 2 * MIB)
    found = replay(b.segment(C, 2 * MIB, pool=(0, 1), stream=7, blocks=[kept]))

    def reserved(by: str, **alone: Any) -> list[tuple[Any, int, int]]:
        parts = found.measure(**alone).parts(by, 3)
        return [(getattr(part, by), part.bytes, part.reserved_peak_bytes) for part in parts]

    assert reserved("stream", pool=(0, 1)) == [(0, 7 * MIB, 20 * MIB), (7, 2 * MIB, 2 * MIB)]
    assert reserved("stream", pool=(0, 0)) == [(0, 5, 2 * MIB)]
    assert reserved("pool", stream=0) == [((0, 1), 7 * MIB, 20 * MIB), ((0, 0), 5, 2 * MIB)]
    assert reserved("pool", pool=(0, 1)) == [((0, 1), 9 * MIB, 22 * MIB)]
    assert reserved("pool", pool=(0, 1), stream=7) == [((0, 1), 2 * MIB, 2 * MIB)]


def test_reserved_bytes_of_one_pool_or_stream_are_its_segments() -> None:
    found = replay()
    assert series(found.measure("reserved", pool=(0, 1))) == [20 * MIB] * 7
    assert series(found.measure("reserved", stream=0)) == [0] + [2 * MIB] * 6
    assert series(found.measure("reserved", pool=(0, 0), stream=7)) == [0] * 7
    alone = found.measure("reserved", pool=(0, 0))
    assert alone.peak == mr.PeakPoint(2 * MIB, 0, 1_000)
    assert alone.end_bytes == 2 * MIB
    assert alone.reconciliation_bytes is None
    assert [(part.stream, part.bytes) for part in alone.parts("stream", 0)] == [(0, 2 * MIB)]
    with pytest.raises(mr.UsageError, match="no pool 5:5"):
        _ = found.measure("reserved", pool=(5, 5)).peak


def test_part_that_only_lost_memory_is_negative() -> None:
    """A segment is allocated on one stream and freed on another. No real file does this, but the
    sum is right.
    """
    b = SnapshotBuilder().segment_alloc(A, MIB, stream=1).segment_free(A, MIB, stream=2)
    parts = replay(b).measure("reserved").parts("stream", 1)
    assert [(part.stream, part.bytes) for part in parts] == [(1, MIB), (2, -MIB)]


def test_separate_peaks_have_a_dip_between_them() -> None:
    b = SnapshotBuilder(times=False)
    for size in (10, 1000, 20, 990, 980, 990, 5, 300, 1):
        b.alloc(A, size)
    found = replay(b).measure().peaks(9)
    assert [(one.bytes, one.event_index) for one in found] == [(1000, 1), (990, 3), (300, 7)]
    assert replay(b).measure().peaks(2) == found[:2]
    assert replay(b).measure().peaks(0) == replay(b).measure().peaks(-1) == ()


@pytest.mark.parametrize("measure", MEASURES)
def test_released_series_is_computed_again(measure: MeasureName) -> None:
    usage = replay().measure(measure)
    before, peak = usage.series.tolist(), usage.peak
    usage.release()
    usage.release()
    assert (usage.series.tolist(), usage.peak) == (before, peak)


def test_first_of_equal_peaks_is_the_highest() -> None:
    usage = replay().measure()  # LIVE both at the start and after the first event
    assert usage.highest(-1, 0) == mr.PeakPoint(LIVE, -1, 1_000)
    assert usage.highest(0, 0) == mr.PeakPoint(LIVE, 0, 1_000)
    assert usage.highest(-1, 2) == usage.highest(0, 2) == mr.PeakPoint(LIVE + 100, 1, 1_010)
    part = replay(start=2, stop=5).measure()  # LIVE + 100 before it, and after its first event
    assert part.highest(1, 2) == mr.PeakPoint(LIVE + 100, 1, 1_020)


@pytest.mark.parametrize("measure", MEASURES)
def test_ranges_match_the_whole_trace(measure: MeasureName) -> None:
    whole = SERIES[measure]  # at the start, then after each event
    usage = replay().measure(measure)
    low, high, event = usage.ranges([0, 2, 2, 6, 6])
    assert low == [min(whole[1:3]), whole[2], min(whole[3:]), whole[6]]
    assert high == [max(whole[1:3]), whole[2], max(whole[3:]), whole[6]]
    assert event == [whole.index(high[0], 1) - 1, 1, whole.index(high[2], 3) - 1, 5]
    part = replay(start=2, stop=5).measure(measure)
    assert part.ranges((2, 2, 4, 5)) == (
        [whole[2], min(whole[3:5]), whole[5]],
        [whole[2], max(whole[3:5]), whole[5]],
        [1, whole.index(max(whole[3:5]), 3) - 1, 4],
    )
    assert part.ranges(np.array([2, 5]))[1] == [max(whole[3:6])]  # type: ignore[arg-type]
    assert part.ranges([5]) == ([], [], [])


@pytest.mark.parametrize("bounds", [[1, 3], [2, 6], [3, 2], [2**63, 2**63], [-(2**70), 2], []])
def test_ranges_beyond_the_trace_are_refused(bounds: list[int]) -> None:
    said = "bounds must be ascending events from 2 to 5"
    with pytest.raises(UsageError, match=said):
        replay(start=2, stop=5).measure().ranges(bounds)


def test_range_keeps_event_numbers() -> None:
    found = replay(start=2, stop=5)
    for measure, whole in SERIES.items():
        usage = found.measure(measure)
        assert series(usage) == whole[2:6], measure
        assert usage.reconciliation_bytes is None
        assert usage.peak.event_index == whole.index(max(whole[2:6]), 2) - 1
        if measure != "reserved":
            assert usage.live_at(event=1).bytes == whole[2]
            assert usage.lifetimes.alloc_event.tolist().count(3) == 1
        assert sum(part.bytes for part in usage.parts("stream", 4)) == whole[5]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("by", ["pool", "stream"])
def test_repeated_parts_are_equal(measure: MeasureName, by: str) -> None:
    made = record(5, steps=300, late=40)
    data = build.dump(made.snapshot)
    usage = mr.open(data).replay().measure(measure)
    for event in (200, -1, 7, 200, 150, usage.replay.events - 1):
        again = usage.parts(by, event)
        assert again == mr.open(data).replay().measure(measure).parts(by, event)
        assert sum(part.bytes for part in again) == usage.bytes_at(event)


def test_traffic_matches_the_whole_trace() -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 3).alloc(2048, 5).free_completed(512, 3).alloc(512, 9)
    data = build.dump(builder.build())
    for usage in (mr.open(data).replay().measure(), mr.open(data, start=1).replay().measure()):
        keys = _groups.size_keys(usage.native)
        found = [
            (before, came, went)
            for _, before, _, came, _, went, _ in usage.traffic(keys, 1, 3, 0)[0]
        ]
        assert sorted(found) == [(0, 9, 0), (3, 0, 3)]
        for begin, end in ((1, 4), (2, 1), (-2, 1)):
            with pytest.raises(UsageError):
                usage.traffic(keys, begin, end, 0)


def test_measures_without_events_have_one_value() -> None:
    b = SnapshotBuilder()
    b.segment(A, 2 * MIB, blocks=[b.block(A, 512, 300)])
    found = replay(b)
    for measure, want in zip(MEASURES, (300, 300, 512, 512, 2 * MIB), strict=True):
        usage = found.measure(measure)
        assert series(usage) == [want]
        assert usage.peak == usage.minimum == mr.PeakPoint(want, -1, None)
        assert (usage.mean_bytes, usage.end_bytes, usage.reconciliation_bytes) == (None, want, 0)
        assert usage.peaks(3) == (usage.peak,)
        assert [part.bytes for part in usage.parts("pool", -1)] == [want]


def test_unknown_measures_and_keys_are_refused() -> None:
    found = replay()
    for event in (-2, 6):
        for ask in (
            lambda at: found.measure("held").parts("pool", at),
            lambda at: found.measure("held").live_at(event=at),
            lambda at: found.measure("active").carried_held(at),
            lambda at: found.measure().listed(at),
        ):
            with pytest.raises(mr.UsageError, match="no event"):
                ask(event)
    with pytest.raises(mr.UsageError, match="of segments, not of allocations"):
        found.measure("reserved").live_at(event=0)
    with pytest.raises(mr.UsageError, match="either event= or time_us="):
        found.measure("held").live_at()
