"""summary: numbers match those worked out by hand for a small snapshot, and the oracle for random
ones.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from hypothesis import given

import memreplay as mr
from memreplay.commands.summary.find import summarize
from memreplay.commands.summary.result import StateBytes
from memreplay.snapshot.model import MEASURES
from tests import build, oracle
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.strategies import traces


def test_numbers_match_those_worked_out_by_hand() -> None:
    builder = SnapshotBuilder(devices=2, start_us=100)
    builder.alloc(0x1000, 10, frames=[("f", "m.py", 1)], time_us=100)
    builder.oom(99, time_us=130).event("defragment", time_us=150)
    builder.annotation("step", "START", 120)
    live = builder.block(0x1000, 512, 10)
    free = builder.block(0x1200, 1024, 77, "inactive")
    pending = builder.block(0x1600, 512, 30, "active_pending_free")
    builder.segment(0x1000, 2048, blocks=[live, free, pending])
    builder.settings(max_split_size=-1, expandable_segments=True, trace_alloc_max_entries=5)
    builder.settings(garbage_collection_threshold=math.nan)
    found = summarize(mr.open(build.dump(builder.build())))
    assert (found.container, found.protocol, found.annotation_count) == ("pickle", 4, 1)
    assert (found.stack_count, found.frame_count) == (1, 1)
    assert (found.has_times, found.has_stacks, found.overflowed) == (True, True, False)
    # JSON can't represent this value
    assert found.allocator_settings["garbage_collection_threshold"] is None
    assert found.settings_changed["expandable_segments"] is True
    (device,) = found.devices
    assert device.actions == {"alloc": 1, "oom": 1, "defragment": 1}
    assert (device.start_us, device.end_us) == (100, 150)
    assert (device.events, device.events_with_stack, device.unknown_actions) == (3, 1, 1)
    assert (device.segments, device.reserved_bytes) == (1, 2048)
    assert (device.active_bytes, device.requested_bytes) == (1024, 40)
    assert device.states == (
        StateBytes("active_allocated", 1, 512, 10),
        StateBytes("active_pending_free", 1, 512, 30),
        StateBytes("inactive", 1, 1024, 0),
    )
    assert (device.carried_over_bytes, device.peak_bytes, device.end_bytes) == (30, 40, 40)
    assert (device.reconciliation_bytes, device.trusted) == (0, True)
    assert device.reasons == ("recording_begun_late",)
    assert (device.pool_count, device.stream_count) == (1, 1)
    assert (device.blocks_proven, device.blocks_assumed) == (2, 0)
    # The block that was pending before the recording isn't held.
    assert [(m.measure, m.start_bytes, m.peak_bytes, m.end_bytes) for m in device.measures] == [
        ("requested", 30, 40, 40),
        ("held", 0, 10, 10),
        ("active", 512, 1024, 1024),
        ("allocated", 0, 512, 512),
        ("reserved", 2048, 2048, 2048),
    ]
    held = device.measures[1]
    assert (held.peak_event, held.peak_us, held.lowest_bytes) == (0, 100, 0)
    assert (held.exactness, held.reasons, held.reconciliation_bytes) == ("exact", (), 0)


def test_times_may_be_missing() -> None:
    snapshot = SnapshotBuilder(times=False, stacks=False).alloc(1, 2).build()
    found = summarize(mr.open(build.dump(snapshot)))
    assert (found.has_times, found.has_stacks) == (False, False)
    assert (found.devices[0].start_us, found.devices[0].end_us) == (None, None)


@given(snapshot=traces())
def test_counts_match_the_oracle(snapshot: Any) -> None:
    found = summarize(mr.open(build.dump(snapshot)))
    rows = oracle.columns(snapshot)
    assert [d.device for d in found.devices] == oracle.devices(snapshot)
    for device in found.devices:
        mine = rows[device.device] if device.device < len(rows) else []
        want = oracle.replay(snapshot, device.device)
        assert device.actions == Counter(row.action or "(none)" for row in mine)
        assert device.events_with_stack == sum(bool(row.frames) for row in mine)
        times = [row.time_us for row in mine if row.time_us is not None]
        assert device.start_us == min(times, default=None)
        assert device.end_us == max(times, default=None)
        assert device.peak_bytes == want.peak_bytes
        assert device.reconciliation_bytes == want.reconciliation_bytes
        segments = [
            s
            for s in (snapshot if isinstance(snapshot, list) else snapshot["segments"])
            if s.get("device", 0) == device.device
        ]
        assert device.segments == len(segments)
        assert device.reserved_bytes == sum(s["total_size"] for s in segments)
        active = [b for s in segments for b in s["blocks"] if b.get("state") != "inactive"]
        assert device.active_bytes == sum(b["size"] for b in active)
        assert sum(s.block_count for s in device.states) == sum(len(s["blocks"]) for s in segments)


@given(recordings())
def test_measures_match_the_allocator(recording: Recording) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in summarize(snap).devices:
        truth = recording.truths[device.device]
        assert tuple(one.measure for one in device.measures) == MEASURES
        for one in device.measures:
            if one.exactness == "estimated" or device.reasons == ("no_events",):
                continue
            whole = [truth.start_of(one.measure), *truth.series(one.measure)]
            assert one.start_bytes == whole[0]
            assert one.peak_bytes == max(whole)
            assert one.peak_event == whole.index(max(whole)) - 1
            assert one.lowest_bytes == min(whole)
            assert one.end_bytes == whole[-1]
            assert one.reconciliation_bytes == 0
