"""Tests of analysis/groups/reserving.py: finding the code that caused memory to be reserved."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.groups.reserving import AGAINST, BEFORE, requesting_stacks
from memreplay.commands.at.find import at_report
from memreplay.commands.peak.find import peak_report
from memreplay.errors import UsageError
from memreplay.snapshot.model import By, When
from tests import allocator_strategies, build
from tests.build import FrameSpec, SnapshotBuilder

A, MIB = 0x10000000, 1 << 20
# start, end, and cause: an event, or -1 for memory reserved from the start
Range = tuple[int, int, int]


def without(ranges: list[Range], start: int, stop: int) -> list[Range]:
    found = []
    for low, high, who in ranges:
        found += [
            (x, y, who) for x, y in ((low, min(high, start)), (max(low, stop), high)) if x < y
        ]
    return found


def walked(snapshot: Any, device: int, event: int) -> Counter[Any]:
    """Return the reserved bytes after an event, grouped by cause: an event, unknown (-1), or the
    stack of a final segment.
    """
    trace = snapshot["device_traces"][device]
    moves = [
        (i, one["action"], one["addr"], one["addr"] + one["size"])
        for i, one in enumerate(trace)
        if one["action"].startswith("segment_")
    ]
    final = [
        (one["address"], one["address"] + one["total_size"], one)
        for one in snapshot["segments"]
        if one["device"] == device
    ]
    # The memory reserved at the start is the final state, plus ranges whose first event is a free,
    # minus ranges whose first event is an alloc.
    before: list[Range] = [(low, high, -1) for low, high, _ in final]
    for _, action, low, high in reversed(moves):
        before = without(before, low, high)
        if action in ("segment_free", "segment_unmap"):
            before.append((low, high, -1))
    now = before
    for i, action, low, high in moves:
        if i <= event:
            now = without(now, low, high)
            if action in ("segment_alloc", "segment_map"):
                now.append((low, high, i))
    found: Counter[Any] = Counter()
    for low, high, who in now:
        name: Any = who
        if who < 0:
            for start, stop, segment in final:
                touched = any(x < stop and start < y for _, _, x, y in moves)
                frames = segment["frames"]
                same = (start, stop) == (low, high) and not segment["is_expandable"]
                if same and not touched and frames:
                    name = tuple((f["name"], f["filename"], f["line"]) for f in frames)
        elif not trace[who].get("frames"):
            name = "none"
        else:
            name = tuple((f["name"], f["filename"], f["line"]) for f in trace[who]["frames"])
        found[name] += high - low
    return found


def told(snap: mr.Snapshot, device: int, event: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for stack, size, _ in requesting_stacks(snap, snap.replay(device), event):
        frames = tuple((f.function, f.file, f.line) for f in snap.stack(max(stack, 0)))
        found[frames or {-1: "none", -2: -1}[stack]] += size
    return found


@pytest.mark.parametrize("seed", range(24))
def test_causes_match_a_walk_over_all_ranges(seed: int) -> None:
    settings = ("default", "expandable")[seed % 2]
    made = allocator_strategies.record(seed, settings=settings, steps=120, late=seed % 3 * 30)
    frames: list[FrameSpec] = [("old", "/home/ana/old.py", seed)]
    for segment in made.snapshot["segments"]:
        segment["frames"] = SnapshotBuilder().frames(frames)
    snap = mr.open(build.dump(made.snapshot))
    for device in snap.devices:
        events = snap.replay(device).events
        usage = snap.replay(device).measure("reserved")
        for event in {-1, 0, events // 3, events // 2, events - 1, usage.peak.event_index}:
            found = told(snap, device, event)
            assert found == walked(made.snapshot, device, event)
            assert sum(found.values()) == usage.bytes_at(event)


@pytest.mark.parametrize("by", ["stack", "line", "innermost", "file", "function"])
def test_groups_add_up(by: By) -> None:
    made = SnapshotBuilder()
    stacks: list[list[FrameSpec]] = [
        [("empty", "/x/site-packages/torch/f.py", 1), ("train", "/home/ana/train.py", line)]
        for line in (1, 2, 1)
    ]
    for i, frames in enumerate(stacks):
        made.event("segment_alloc", A + (i << 26), (i + 1) * MIB, frames=frames)
    made.segment(A + (8 << 26), 8 * MIB, blocks=[made.block(A + (8 << 26), 8 * MIB, 0, "inactive")])
    snap = mr.open(build.dump(made.build()))
    (device,) = peak_report(snap, measure="reserved", by=by, top=1).devices
    assert (device.groups[0].label, device.groups[0].bytes) == (BEFORE, 8 * MIB)
    assert (device.groups_total, device.rest_bytes, device.rest_count) == (
        {"stack": 3, "line": 3, "innermost": 2, "file": 2, "function": 2}[by],
        6 * MIB,
        3,
    )
    whole = peak_report(snap, measure="reserved", by=by, top=0).devices[0]
    assert sum(group.bytes for group in whole.groups) == whole.peak_bytes == 14 * MIB
    if by in ("stack", "line"):
        assert [(group.bytes, group.count) for group in whole.groups[1:]] == [
            (4 * MIB, 2),
            (2 * MIB, 1),
        ]
    (found,) = at_report(snap, [When("event", 0)], measure="reserved", by=by, top=0).devices
    assert [group.bytes for group in found.groups] == [8 * MIB, 1 * MIB]


def test_groups_add_up_if_events_contradict_each_other() -> None:
    made = SnapshotBuilder()
    for _ in range(2):
        made.event("segment_alloc", A, 2 * MIB, frames=[("f", "/home/ana/f.py", 1)])
    (device,) = peak_report(
        mr.open(build.dump(made.build())), measure="reserved", by="stack"
    ).devices
    assert [(group.label, group.bytes) for group in device.groups] == [
        (AGAINST, 2 * MIB),
        ("f /home/ana/f.py:1", 2 * MIB),
    ]
    assert sum(group.bytes for group in device.groups) == device.peak_bytes


def test_memory_reserved_before_a_range_has_an_unknown_cause() -> None:
    made = SnapshotBuilder()
    for i in range(3):
        made.event("segment_alloc", A + (i << 26), 2 * MIB, frames=[("f", "/home/ana/f.py", i)])
        block = made.block(A + (i << 26), 2 * MIB, 0, "inactive")
        made.segment(A + (i << 26), 2 * MIB, blocks=[block])
    data = build.dump(made.build())
    (device,) = peak_report(mr.open(data, start=1, stop=2), measure="reserved", by="stack").devices
    assert [(group.label, group.bytes) for group in device.groups] == [
        (BEFORE, 2 * MIB),
        ("f /home/ana/f.py:1", 2 * MIB),
    ]


def test_segment_allocated_again_after_a_range_is_a_different_segment() -> None:
    late: list[FrameSpec] = [("late", "/home/ana/f.py", 9)]
    made = SnapshotBuilder().alloc(A + (8 << 26), 64)
    made.event("segment_free", A, 2 * MIB)
    made.event("segment_alloc", A, 2 * MIB, frames=late)
    made.segment(A, 2 * MIB, blocks=[made.block(A, 2 * MIB, 0, "inactive")], frames=late)
    data = build.dump(made.build())
    for stop in (1, None):
        (device,) = peak_report(mr.open(data, stop=stop), measure="reserved", by="stack").devices
        assert [(group.label, group.bytes) for group in device.groups] == [(BEFORE, 2 * MIB)]


def test_unsupported_options_are_rejected() -> None:
    made = SnapshotBuilder().event("segment_alloc", A, 2 * MIB)
    snap = mr.open(build.dump(made.build()))
    with pytest.raises(
        UsageError,
        match=r"by pool or stream, or by the requesting code \(stack, .*\), not by category",
    ):
        peak_report(snap, measure="reserved", by="category")
    with pytest.raises(
        UsageError,
        match="by stack covers all pools and streams; leave out pool and stream",
    ):
        peak_report(snap, measure="reserved", by="stack", stream=0)
