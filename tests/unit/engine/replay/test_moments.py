"""moments: live sets at any event match a scan of every allocation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

import memreplay as mr
from memreplay.engine.replay import _timeline
from tests import allocator_strategies, build
from tests.build import SnapshotBuilder
from tests.examples import examples
from tests.strategies import traces


def lists(asked: _timeline.Measure | _timeline.Moments, event: int) -> list[list[int]]:
    return [memoryview(column).tolist() for column in asked.live(event)]


def check(replay: mr.Replay, events: list[int]) -> None:
    for name in ("requested", "held", "active"):
        measure = replay.measure(name).native
        moments = _timeline.Moments(measure)
        for event in events:
            assert lists(moments, event) == lists(measure, event)
            assert moments.largest(event, 0) == measure.largest(event, 0)


@settings(max_examples=examples(150), deadline=None)
@given(traces())
def test_live_sets_of_any_trace_match_a_scan(snapshot: build.Snapshot) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        check(replay, list(range(-1, replay.events)))


@pytest.mark.parametrize("seed", range(6))
def test_live_sets_of_long_recordings_match_a_scan(seed: int) -> None:
    made = allocator_strategies.record(seed, steps=1500, late=seed % 2 * 500)
    replay = mr.open(build.dump(made.snapshot)).replay()
    dice = random.Random(seed)
    check(replay, [-1, replay.events - 1, *(dice.randrange(replay.events) for _ in range(40))])


@pytest.mark.parametrize("live", [0, 1, 31, 32, 33, 64, 65, 1000])
def test_live_sets_of_about_a_leafs_size_match_a_scan(live: int) -> None:
    builder = SnapshotBuilder(times=False)
    for i in range(live):
        builder.alloc(512 + i * 512, 1)
    replay = mr.open(build.dump(builder.free_completed(1 << 40, 5).build())).replay()
    check(replay, [-1, 0, live // 2, live])


def test_invalid_arguments_are_refused() -> None:
    replay = mr.open(build.dump(SnapshotBuilder().alloc(512, 1).build())).replay()
    with pytest.raises(TypeError):
        _timeline.Moments(None)  # type: ignore[arg-type]
    moments = _timeline.Moments(replay.measure().native)
    for event in (-2, 1, 2**70):
        with pytest.raises(IndexError):
            moments.live(event)


def test_repeated_query_gives_the_same_result() -> None:
    made = allocator_strategies.record(2, steps=300)
    usage = mr.open(build.dump(made.snapshot)).replay().measure("held")
    first, second = (usage.live_at(event=100) for _ in range(2))
    assert first.alloc_event.tolist() == second.alloc_event.tolist()
    assert first.bytes == second.bytes == int(usage.series[100])
