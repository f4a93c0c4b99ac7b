"""replay: a small hand-made trace, choosing moments by event and by time, and invalid arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.snapshot.model import Moment
from tests import build
from tests.build import SnapshotBuilder

A, B, C = 0x1000, 0x2000, 0x3000


def replay_of(builder: SnapshotBuilder, device: int = 0) -> mr.Replay:
    return mr.open(build.dump(builder.build())).replay(device)


def by_hand() -> SnapshotBuilder:
    """Carry over B (50 bytes) and C (7 bytes), which stays; allocate and free A."""
    builder = SnapshotBuilder(start_us=1_000)
    builder.alloc(A, 100, time_us=1_000)
    builder.free_requested(A, 100, time_us=1_010)
    builder.free_completed(A, 100, time_us=1_010)
    builder.free_completed(B, 50, time_us=1_020)
    builder.alloc(A, 30, time_us=1_030)
    return builder.finish_segments(extra_live=[(0, C, 7)])


def test_numbers_of_a_small_trace_match_those_worked_out_by_hand() -> None:
    replay = replay_of(by_hand())
    assert replay.carried_over_bytes == 57
    assert replay.usage.tolist() == [157, 157, 57, 7, 37]
    assert replay.usage.dtype == np.int64
    assert not replay.usage.flags.writeable
    assert replay.peak == mr.PeakPoint(157, 0, 1_000)
    assert replay.end_bytes == 37
    assert replay.reconciliation_bytes == 0
    assert replay.lifetimes.alloc_event.tolist() == [0, 4, -1, -1]
    assert replay.lifetimes.free_event.tolist() == [2, -1, 3, -1]
    assert replay.lifetimes.size.tolist() == [100, 30, 50, 7]
    assert replay.lifetimes.address.tolist() == [A, A, B, C]
    assert len(replay.lifetimes) == 4


def test_live_sets_are_found_by_event_and_by_time() -> None:
    replay = replay_of(by_hand())
    assert replay.live_at(event=-1).size.tolist() == [50, 7]
    assert replay.live_at(event=1).size.tolist() == [100, 50, 7]
    assert replay.live_at(event=4).bytes == 37
    for time, event in ((0, -1), (999, -1), (1_000, 0), (1_010, 2), (1_029, 3), (9_999, 4)):
        assert replay.live_at(time_us=time).event_index == event
    assert len(replay.live_at(event=4)) == 2


def test_times_are_searched_by_index_if_the_clock_runs_backwards() -> None:
    builder = SnapshotBuilder()
    builder.alloc(A, 1, time_us=100).alloc(B, 2, time_us=90).alloc(C, 4, time_us=110)
    replay = replay_of(builder)
    assert replay.live_at(time_us=95).event_index == -1
    assert replay.live_at(time_us=100).event_index == 1
    assert replay.live_at(time_us=110).bytes == 7


def test_last_of_several_events_with_one_time_is_found() -> None:
    builder = SnapshotBuilder().alloc(A, 1, time_us=100).alloc(B, 2, time_us=100)
    replay = replay_of(builder)
    assert replay.live_at(time_us=99).event_index == -1
    assert replay.live_at(time_us=100).event_index == 1


def test_peak_may_be_at_the_start() -> None:
    builder = SnapshotBuilder().free(A, 10, time_us=5).alloc(B, 10, time_us=6)
    assert replay_of(builder).peak == mr.PeakPoint(10, -1, 5)


def test_first_of_equal_peaks_wins() -> None:
    builder = SnapshotBuilder().alloc(A, 10).free(A, 10).alloc(A, 10)
    assert replay_of(builder).peak.event_index == 0


def test_double_alloc_ends_the_older_allocation() -> None:
    replay = replay_of(SnapshotBuilder().alloc(A, 10).alloc(A, 4).free(A, 4))
    assert replay.usage.tolist() == [10, 4, 4, 0]
    assert replay.double_allocs == 1
    assert replay.lifetimes.free_event.tolist() == [1, 3]


def test_second_free_has_no_effect() -> None:
    replay = replay_of(SnapshotBuilder().alloc(A, 10).free(A, 10).free_completed(A, 10))
    assert replay.usage.tolist() == [10, 10, 0, 0]
    assert replay.unmatched_frees == 1
    assert replay.carried_over_bytes == 0


def test_pending_free_is_still_held() -> None:
    builder = SnapshotBuilder().alloc(A, 10).free_requested(A, 10)
    block = builder.block(A, 512, 10, "active_pending_free")
    replay = replay_of(builder.segment(A, 2**21, blocks=[block]))
    assert replay.end_bytes == 10
    assert replay.reconciliation_bytes == 0


def test_devices_are_separate() -> None:
    builder = SnapshotBuilder(devices=2).alloc(A, 1, device=0).alloc(A, 2, device=1)
    builder.free(A, 2, device=1)
    snap = mr.open(build.dump(builder.build()))
    assert snap.replay(0).usage.tolist() == [1]
    assert snap.replay(1).usage.tolist() == [2, 2, 0]


def test_device_with_segments_only_has_its_final_state() -> None:
    builder = SnapshotBuilder()
    builder.segment(A, 2**21, device=1, blocks=[builder.block(A, 512, 300)])
    replay = replay_of(builder, device=1)
    assert replay.events == 0
    assert replay.usage.tolist() == []
    assert replay.peak == mr.PeakPoint(300, -1, None)
    assert replay.live_at(event=-1).bytes == 300


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"event": 5}, "no event 5; its events: 0 to 4"),
        ({"event": -2}, "no event -2"),
        ({}, "either event= or time_us="),
        ({"event": 1, "time_us": 1}, "either event= or time_us="),
    ],
)
def test_missing_moments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(mr.UsageError, match=words):
        replay_of(by_hand()).live_at(**arguments)


def test_moment_by_time_needs_times() -> None:
    replay = replay_of(SnapshotBuilder(times=False).alloc(A, 1))
    assert replay.peak.time_us is None
    with pytest.raises(mr.UsageError, match="has no times"):
        replay.live_at(time_us=3)


def test_overflowing_sizes_are_refused() -> None:
    builder = SnapshotBuilder()
    for i in range(3):
        builder.alloc(A + i, 2**62 - 1)
    with pytest.raises(mr.SnapshotError, match="add up to more than 64 bits"):
        replay_of(builder)


def test_moment_by_time_needs_times_on_its_own_device() -> None:
    builder = SnapshotBuilder(devices=2).alloc(A, 1, device=0).alloc(B, 2, device=1)
    builder.drop("time_us")
    snap = mr.open(build.dump(builder.build()))
    assert snap.replay(0).live_at(time_us=2**60).bytes == 1
    with pytest.raises(mr.UsageError, match="have no times"):
        snap.replay(1).live_at(time_us=2**60)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": "peak"}, "unknown measure 'peak'; available: requested, held, active"),
        ({"name": "reserved", "pool": (9, 9)}, "device 0 has no pool 9:9; its pools: 0:0"),
        ({"pool": (9, 9)}, "device 0 has no pool 9:9; its pools: 0:0"),
        ({"name": "held", "stream": 5}, "device 0 has no stream 5; its streams: 0"),
        ({"stream": "0"}, "no stream 0"),
    ],
)
def test_unknown_measures_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(mr.UsageError, match=words):
        replay_of(by_hand()).measure(**arguments).series  # noqa: B018


def test_pools_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each track requests one pool. Naming all pools for every track would take quadratic time."""
    builder = SnapshotBuilder()
    for i in range(50):
        builder.alloc(A + i, 1, pool_id=(0, i))
    replay = replay_of(builder)
    named: list[object] = []
    of = mr.Replay.pool_of

    def pool_of(self: mr.Replay, key: int | None) -> tuple[int, int] | None:
        named.append(key)
        return of(self, key)

    monkeypatch.setattr(mr.Replay, "pool_of", pool_of)
    for i in range(50):
        assert replay.measure(pool=(0, i)).end_bytes == 1
    assert len(named) <= 51


def test_error_lists_a_few_of_many_streams() -> None:
    builder = SnapshotBuilder()
    for i in range(5000):
        builder.alloc(A + i, 1, stream=i)
    with pytest.raises(mr.UsageError, match=r"its streams: 0, 1, .* 9 and 4990 more$"):
        replay_of(builder).measure(stream=7000).series  # noqa: B018


def test_unknown_pools_are_refused() -> None:
    builder = SnapshotBuilder().alloc(A, 1)
    with pytest.raises(mr.UsageError, match="no pool 0:0; its pools: none is known"):
        replay_of(builder).measure(pool=(0, 0)).series  # noqa: B018


def test_inputs_of_measures_are_computed_once() -> None:
    replay = replay_of(by_hand())
    assert replay.holding is replay.holding
    assert replay.reserved is replay.blocks.reserved
    assert replay.classes("pool") is replay.classes("pool")
    assert replay.classes("pool") is not replay.classes("stream")
    assert replay.measure().series is replay.measure("requested").series
    assert repr(replay).startswith("<Replay of device 0: 5 events, ")


def test_settings_determine_the_sizes_of_blocks() -> None:
    def allocated(**settings: Any) -> int:
        builder = SnapshotBuilder().segment_alloc(A * 2**20, 20 * 2**20)
        builder.alloc(A * 2**20, 5 * 2**20 + 1).settings(**settings)
        return replay_of(builder).measure("allocated").end_bytes

    assert allocated() == 5 * 2**20 + 512
    assert allocated(roundup_power2_divisions={"4": 4}) == 6 * 2**20
    assert allocated(max_split_size=2**20) == 20 * 2**20


def test_events_of_an_action_are_counted_on_their_device() -> None:
    builder = SnapshotBuilder(devices=2).alloc(512, 1).oom(5).alloc(1024, 2).oom(6)
    builder.alloc(512, 1, device=1).oom(7, device=1)
    data = build.dump(builder.build())
    with mr.open(data) as snap:
        assert snap.replay(0).events_of("oom") == [1, 3]
        assert snap.replay(1).events_of("oom") == [1]
        assert snap.replay(0).events_of("snapshot") == []
    with mr.open(data, start=Moment("event", 2)) as snap:
        assert snap.replay(0).events_of("oom") == [3]


def test_times_of_events_may_be_missing() -> None:
    builder = SnapshotBuilder().alloc(512, 1).drop("time_us")
    builder.alloc(1024, 2, time_us=9).alloc(2048, 3, time_us=4)
    with mr.open(build.dump(builder.build())) as snap:
        replay = snap.replay()
        assert replay.times_us([-1, 0, 1, 2]) == [None, None, 9, 4]
        assert replay.time_range == (9, 9)
    with mr.open(build.dump(SnapshotBuilder(times=False).alloc(512, 1).build())) as snap:
        assert snap.replay().times_us([0]) == [None]
        assert snap.replay().time_range is None


def test_request_of_an_event_has_its_size_and_stack() -> None:
    builder = SnapshotBuilder().alloc(512, 100, frames=[("f", "a.py", 1)]).free(512, 100)
    builder.oom(700, frames=[("g", "b.py", 2)])
    snap = mr.open(build.dump(builder.build()))
    replay = snap.replay()
    found = [replay.request_of(event) for event in range(replay.events)]
    assert [size for size, _ in found] == [100, 100, 100, 700]
    assert [frame.function for frame in snap.stack(found[0][1])] == ["f"]
    assert [frame.function for frame in snap.stack(found[3][1])] == ["g"]
    part = mr.open(build.dump(builder.build()), start=Moment("event", 2)).replay()
    assert part.request_of(3)[0] == 700
    with pytest.raises(mr.UsageError):
        replay.request_of(4)
