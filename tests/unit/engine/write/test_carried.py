"""Events for allocations that were live before a slice: `memreplay_carried`, in window.pyx."""

from __future__ import annotations

import json
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.build import SnapshotBuilder

WRITERS: list[Any] = [build.dump, build.dump_cpp, lambda s: json.dumps(s).encode()]
A, B = 0x1000, 0x2000


@pytest.mark.parametrize("writer", WRITERS)
def test_marked_events_are_carried_over_allocations(writer: Any) -> None:
    builder = SnapshotBuilder(devices=2).alloc(B, 1, device=0)
    builder.alloc(A, 100, device=1, memreplay_carried=True)
    builder.free_requested(A, 100, device=1, memreplay_carried=True)
    builder.alloc(B, 7, device=1).free_completed(A, 100, device=1)
    snap = mr.open(writer(builder.build()))
    replay = snap.replay(1)
    assert (replay.first_event, replay.events, snap.trace_events(1)) == (2, 2, 4)
    assert (replay.carried_over_bytes, replay.usage.tolist()) == (100, [107, 7])
    assert replay.measure("held").start_bytes == 0
    assert snap.replay(0).usage.tolist() == [1]
    # A range continues the count.
    assert mr.open(writer(builder.build()), start=3).replay(1).carried_over_bytes == 107
    assert mr.open(writer(builder.build()), device=0).replay(0).events == 1


@pytest.mark.parametrize("writer", WRITERS)
def test_a_marked_event_may_have_its_blocks_size(writer: Any) -> None:
    # The block wasn't split, because the rest of the hole that it took was too small.
    segment, requested, size = 0x7000000000, 5 << 20, 11 << 19
    builder = SnapshotBuilder().alloc(segment, requested, memreplay_carried=size)
    builder.free_requested(segment, requested).free_completed(segment, requested)
    free = builder.block(segment, 20 << 20, state="inactive")
    builder.segment(segment, 20 << 20, blocks=[free])
    allocated = mr.open(writer(builder.build())).replay().measure("allocated")
    assert allocated.start_bytes == size
    # A size that can't be right isn't used.
    for wrong in (0, requested - 1, 21 << 20):
        snapshot = builder.build()
        snapshot["device_traces"][0][0]["memreplay_carried"] = wrong
        allocated = mr.open(writer(snapshot)).replay().measure("allocated")
        assert allocated.start_bytes == requested


@pytest.mark.parametrize("writer", WRITERS)
def test_marked_events_after_other_events_are_ordinary(writer: Any) -> None:
    builder = SnapshotBuilder().alloc(B, 7).alloc(A, 100, memreplay_carried=True)
    replay = mr.open(writer(builder.build())).replay()
    assert (replay.first_event, replay.usage.tolist()) == (0, [7, 107])


@pytest.mark.parametrize("value", [False, None, 1.5, "yes", []])
def test_only_true_and_sizes_mark_an_event(value: Any) -> None:
    builder = SnapshotBuilder().alloc(A, 100, memreplay_carried=value)
    assert mr.open(build.dump(builder.build())).replay().usage.tolist() == [100]
