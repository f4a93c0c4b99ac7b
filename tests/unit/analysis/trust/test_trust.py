"""trust: each reason has a snapshot that gives it, and a clean one has none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

import memreplay as mr
from memreplay.analysis.trust.ring import overflowed
from memreplay.analysis.trust.trust import (
    EVENTS_LOST_BEFORE,
    REMARKS,
    device_verdict,
    verdict,
)
from memreplay.snapshot import model
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.allocator import MIB, Device, Machine
from tests.allocator_strategies import Recording, record, recordings
from tests.build import Snapshot, SnapshotBuilder


def reasons(builder: SnapshotBuilder, device: int = 0) -> tuple[str, ...]:
    """Those of requested bytes."""
    snap = mr.open(build.dump(builder.build()))
    found = verdict(snap, snap.replay(device).measure())
    assert found.trusted == (not found.reasons)
    return found.reasons


def all_reasons(snapshot: Snapshot, device: int = 0) -> dict[str, tuple[str, ...]]:
    """Those of the device, and of each measure that has any."""
    snap = mr.open(build.dump(snapshot))
    replay = snap.replay(device)
    found = {name: verdict(snap, replay.measure(name)).reasons for name in MEASURES}
    return {"device": device_verdict(snap, replay).reasons} | {
        name: those for name, those in found.items() if those
    }


def recorder() -> tuple[Machine, Device]:
    """A machine that records from the start, and its one device."""
    machine = Machine()
    machine.begin_recording()
    return machine, machine.devices[0]


def dumped(machine: Machine) -> Snapshot:
    return copy.deepcopy(machine.dump()[0])


def without(snapshot: Snapshot, *actions: str) -> Snapshot:
    """As skip_actions leaves it."""
    (trace,) = snapshot["device_traces"]
    trace[:] = [event for event in trace if event["action"] not in actions]
    return snapshot


def test_a_clean_snapshot_is_trusted() -> None:
    assert reasons(SnapshotBuilder().alloc(1, 9).finish_segments()) == ()


def test_no_events() -> None:
    builder = SnapshotBuilder()
    assert reasons(builder.segment(1, 512, blocks=[builder.block(1, 512, 5)])) == ("no_events",)


def test_no_segments() -> None:
    assert reasons(SnapshotBuilder().alloc(1, 9)) == ("no_segments",)
    # Everything given back: there is nothing that segments could add.
    assert reasons(SnapshotBuilder().alloc(1, 9).free(1, 9)) == ()
    without = {"device_traces": SnapshotBuilder().alloc(1, 9).free(1, 9).build()["device_traces"]}
    snap = mr.open(build.dump(without))
    assert verdict(snap, snap.replay(0).measure()).reasons == ("no_segments",)


def test_segments_disagree() -> None:
    builder = SnapshotBuilder().alloc(1, 9)
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9, "inactive")])
    assert reasons(builder) == ("segments_disagree",)


def test_truncated() -> None:
    builder = SnapshotBuilder().alloc(1, 9).alloc(2, 9).alloc(3, 9)
    data = build.dump(builder.finish_segments().build())
    snap = mr.open(data[:-40], salvage=True)
    assert verdict(snap, snap.replay(0).measure()).reasons == ("truncated",)


def test_unmatched_frees_double_allocs_and_sizes() -> None:
    builder = SnapshotBuilder().alloc(1, 9).free(1, 9).free_completed(1, 9)
    assert reasons(builder.finish_segments()) == ("unmatched_frees",)
    builder = SnapshotBuilder().alloc(1, 9).alloc(1, 9)
    assert reasons(builder.finish_segments()) == ("double_allocs",)
    builder = SnapshotBuilder().alloc(1, 9).free_completed(1, 8)
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9, "inactive")])
    assert reasons(builder) == ("size_mismatches",)


def test_no_requested_sizes() -> None:
    builder = SnapshotBuilder().alloc(1, 512)
    block = builder.block(1, 512, 512)
    del block["requested_size"]
    assert reasons(builder.segment(1, 2**20, blocks=[block])) == ("no_requested_sizes",)


@pytest.mark.parametrize(
    "top, settings, expected",
    [
        ({}, {}, None),
        ({"trace_alloc_overflowed": True}, {}, True),
        ({"trace_alloc_overflowed": False}, {}, False),
        ({"trace_alloc_overflowed": [False, True]}, {}, True),
        ({}, {"trace_alloc_overflowed": True}, True),
        ({"trace_alloc_max_entries": 2}, {}, True),
        ({"trace_alloc_max_entries": 3}, {}, False),
        ({"trace_alloc_max_entries": [9, 9]}, {}, False),
        ({}, {"trace_alloc_max_entries": 2}, True),
        ({"trace_alloc_max_entries": "many"}, {}, None),
        ({"trace_alloc_max_entries": [2, None]}, {}, None),
        ({"trace_alloc_max_entries": [9]}, {}, None),
        ({"trace_alloc_max_entries": True}, {}, None),
        ({"trace_alloc_overflowed": False, "trace_alloc_max_entries": 1}, {}, False),
    ],
)
def test_ring_overflow(
    top: dict[str, Any], settings: dict[str, Any], expected: bool | None
) -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9).alloc(2, 9)
    for key, value in top.items():
        builder.top(key, value)
    if settings:
        builder.settings(**settings)
    snap = mr.open(build.dump(builder.finish_segments().build()))
    assert overflowed(snap) is expected


def test_ring_overflow_of_one_device() -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).alloc(2, 9, device=1)
    builder.top("trace_alloc_overflowed", [False, True])
    snap = mr.open(build.dump(builder.finish_segments().build()))
    assert verdict(snap, snap.replay(0).measure()).reasons == ()
    assert verdict(snap, snap.replay(1).measure()).reasons == ("ring_overflow",)


@pytest.mark.parametrize("most, expected", [("many", None), ([], None), (0, None), (1, False)])
def test_a_ring_of_no_events(most: Any, expected: bool | None) -> None:
    segment = {"address": 4096, "total_size": 2**20}
    data = build.dump({"segments": [segment], "trace_alloc_max_entries": most})
    assert overflowed(mr.open(data), 0) is expected


def test_a_device_that_did_nothing_while_others_did() -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).finish_segments()
    builder.segment(4096, 2**20, device=1, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder, device=1) == ()


def test_a_trace_in_which_only_memory_was_freed() -> None:
    builder = SnapshotBuilder().free(1, 9)
    assert reasons(builder.finish_segments()) == ()


@pytest.mark.parametrize("action", ["snapshot", "free_completed", "segment_alloc"])
def test_a_trace_of_nothing_that_a_program_did(action: str) -> None:
    """What a dump leaves, and the last event of a recording of the state only."""
    machine, device = recorder()
    device.malloc(3 * MIB)
    device.free(device.malloc(2 * MIB) or pytest.fail("no block"))
    if action == "snapshot":
        device.record_snapshot()
    snapshot = dumped(machine)
    snapshot["device_traces"] = [
        [event for event in snapshot["device_traces"][0] if event["action"] == action][-1:]
    ]
    snap = mr.open(build.dump(snapshot))
    found = verdict(snap, snap.replay(0).measure())
    assert "no_allocations" in found.reasons
    assert found.exact or action != "snapshot"
    assert not found.trusted
    assert "no_allocations" in device_verdict(snap, snap.replay(0)).reasons


def test_segments_may_be_recorded_alone() -> None:
    """As with `skip_actions` for all events of blocks."""
    builder = SnapshotBuilder().event("segment_alloc", 2**24, 2 * MIB)
    builder.event("segment_alloc", 2**25, 4 * MIB).event("segment_free", 2**25, 4 * MIB)
    builder.segment(2**24, 2 * MIB, blocks=[builder.block(2**24, 2 * MIB, 0, "inactive")])
    snap = mr.open(build.dump(builder.build()))
    replay = snap.replay()
    assert replay.measure("reserved").peak.bytes == 6 * MIB
    for strict in (False, True):
        found = verdict(snap, replay.measure("reserved"), strict=strict)
        assert found.trusted
        assert "no_allocations" not in found.reasons
        assert "no_allocations" in verdict(snap, replay.measure("requested"), strict=strict).reasons


def test_an_idle_device_was_recorded_all_the_same() -> None:
    """PyTorch leaves a `snapshot` event on every device, whether anything is on it or not."""
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).alloc(2, 9, device=0)
    builder.finish_segments().snapshot_event(512, device=1)
    builder.segment(4096, 2**20, device=1, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder, device=1) == ()
    # Of devices that were not read, their number of events shows it.
    snap = mr.open(build.dump(builder.build()), device=1)
    assert verdict(snap, snap.replay(1).measure()).reasons == ()


def test_what_the_recorder_says_it_recorded_was_recorded() -> None:
    builder = SnapshotBuilder().snapshot_event(512)
    builder.segment(4096, 2**20, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder) == ("no_allocations",)
    builder.top("memreplay", {"recorder": "record", "max_entries": None})
    assert reasons(builder) == ()


# --- what each measure has against it -------------------------------------------------------------


def test_a_whole_recording_has_nothing_against_it() -> None:
    machine, device = recorder()
    block = device.malloc(3 * MIB)
    device.malloc(100)
    assert block is not None
    device.free(block)
    assert all_reasons(dumped(machine)) == {"device": ()}


def tail(changed: int) -> Snapshot:
    """A dump during which this many blocks are freed, after its trace was read out."""
    machine, device = recorder()
    blocks = [device.malloc(1000 + 512 * i) for i in range(40)]
    trace = dumped(machine)["device_traces"]
    for block in blocks[: 2 * changed : 2]:
        assert block is not None
        device.free(block)
    return dumped(machine) | {"device_traces": trace}


def test_two_blocks_that_change_during_the_dump() -> None:
    found = all_reasons(tail(2))
    assert found == {
        "device": ("segments_disagree", "blocks_disagree", "tail_race"),
        "requested": ("segments_disagree",),
        "held": ("segments_disagree",),
        "active": ("segments_disagree", "blocks_disagree"),
        "allocated": ("segments_disagree", "blocks_disagree"),
        # Segments may have come and gone with them.
        "reserved": ("segments_disagree",),
    }


def test_as_many_blocks_as_a_race_may_change() -> None:
    found = all_reasons(tail(16))
    assert found["device"] == ("segments_disagree", "blocks_disagree", "tail_race")


def test_a_process_that_went_on_after_recording() -> None:
    found = all_reasons(tail(17))
    assert found["device"] == ("segments_disagree", "blocks_disagree", "recording_stopped")
    assert found["reserved"] == ("segments_disagree",)


def test_segments_that_came_after_a_recording_that_had_stopped() -> None:
    machine, device = recorder()
    block = device.malloc(1000)
    trace = dumped(machine)["device_traces"]
    device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    found = all_reasons(dumped(machine) | {"device_traces": trace})
    assert found["reserved"] == found["requested"] == ("segments_disagree",)


def test_lost_frees_are_no_race() -> None:
    snapshot = tail(2)
    (trace,) = snapshot["device_traces"]
    trace.append(dict(next(event for event in trace if event["action"] == "alloc")))
    assert not {"tail_race", "recording_stopped"} & set(all_reasons(snapshot)["device"])


def test_free_requests_that_were_skipped() -> None:
    machine, device = recorder()
    block = device.malloc(1000)
    assert block is not None
    device.free(block)
    found = all_reasons(without(dumped(machine), "free_requested"))
    assert found == {
        "device": ("skip_actions",),
        "held": ("skip_actions",),
        "allocated": ("skip_actions",),
    }


def test_frees_that_wait_for_a_stream() -> None:
    machine, device = recorder()
    block = device.malloc(1000)
    assert block is not None
    device.record_stream(block, 7)
    device.free(block)
    snap = mr.open(build.dump(dumped(machine)))
    assert device_verdict(snap, snap.replay()) == model.Verdict(True, "exact", ("pending_frees",))
    assert snap.replay().measure("held").end_bytes == 0
    assert snap.replay().measure("requested").end_bytes == 1000


def test_a_pool_that_is_set_back_to_a_checkpoint() -> None:
    machine, device = recorder()
    device.begin_pool((1, 0))
    device.malloc(1000)
    device.end_pool()
    device.set_checkpoint((1, 0), device.checkpoint((1, 0)))
    assert all_reasons(dumped(machine)) == {"device": ("synthetic_pool_events",)}


@pytest.mark.parametrize("off, against", [(0, ()), (512, ("snapshot_events_disagree",))])
def test_snapshot_events(off: int, against: tuple[str, ...]) -> None:
    machine, device = recorder()
    device.malloc(1000)
    machine.dump()  # leaves the event
    device.malloc(5 * MIB)
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
    (event,) = [event for event in trace if event["action"] == "snapshot"]
    event["size"] += off
    found = all_reasons(snapshot)
    assert found.pop("device") == against
    assert found == (dict.fromkeys(("active", "allocated"), against) if against else {})


def slack(freed_later: bool, more: int = 0) -> Snapshot:
    """A large block with slack from before the recording, and a snapshot event that tells it."""
    machine = Machine()
    device = machine.devices[0]
    room, behind = device.malloc(3 * MIB + 1024), device.malloc(2 * MIB)
    assert room is not None
    assert behind is not None
    device.free(room)
    block = device.malloc(3 * MIB - 500_000)  # takes the whole of it
    assert block is not None
    machine.begin_recording()
    machine.dump()
    if freed_later:
        device.free(behind)
        device.free(block)
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
    trace[0]["size"] += more
    return snapshot


def test_sizes_that_are_assumed_are_no_contradiction() -> None:
    against = ("blocks_assumed",)
    found = all_reasons(slack(freed_later=True))
    assert found["active"] == found["allocated"] == against
    assert found["device"] == (*against, "recording_begun_late")
    assert "snapshot_events_disagree" in all_reasons(slack(True, more=2 * MIB))["active"]
    assert "snapshot_events_disagree" in all_reasons(slack(True, more=-MIB))["active"]
    # One that is there at the end is known.
    assert all_reasons(slack(freed_later=False))["active"] == ("no_allocations",)


def cut(snapshot: Snapshot, action: str, at: int = 0) -> Snapshot:
    """Without one event of this action."""
    (trace,) = snapshot["device_traces"]
    found = [event for event in trace if event["action"] == action]
    trace.remove(found[at])
    return snapshot


def test_an_allocation_that_is_missing() -> None:
    """Its block counts as live from the start, where its segment was not there yet."""
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    found = all_reasons(cut(dumped(machine), "alloc"))
    against = ("start_impossible", "measures_disagree")
    assert found["requested"] == found["held"] == found["reserved"] == against
    assert set(against) <= set(found["device"])
    assert "segment_events_disagree" not in found["device"]


def test_blocks_of_the_start_that_lie_over_each_other() -> None:
    builder = SnapshotBuilder().alloc(9 * 2**20, 512).free(9 * 2**20, 512)
    builder.free_requested(1024, 1024).free_completed(1024, 1024)
    builder.free_requested(1536, 512).free_completed(1536, 512)
    builder.segment(1024, 2**21, blocks=[builder.block(1024, 2**21, 0, "inactive")])
    builder.segment(9 * 2**20, 2**21, blocks=[builder.block(9 * 2**20, 2**21, 0, "inactive")])
    assert reasons(builder) == ("start_impossible",)


def test_a_block_that_outlives_its_segment() -> None:
    machine = Machine()
    device = machine.devices[0]
    block = device.malloc(30 * MIB)
    assert block is not None
    machine.begin_recording()
    device.malloc(100)  # that something is left
    device.free(block)
    device.empty_cache()
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
    frees = [event for event in trace if event["action"].startswith("free")]
    snapshot["device_traces"] = [[event for event in trace if event not in frees] + frees]
    found = all_reasons(snapshot)
    assert "start_impossible" in found["requested"]
    assert "start_impossible" in found["device"]


def test_a_free_whose_completion_is_missing() -> None:
    machine = Machine()
    device = machine.devices[0]
    block = device.malloc(30 * MIB)
    machine.begin_recording()
    assert block is not None
    device.free(block)
    device.malloc(100)
    found = all_reasons(cut(dumped(machine), "free_completed"))
    assert found["requested"] == ("unmatched_requests",)
    assert "unmatched_requests" in found["device"]


def test_a_request_of_a_free_that_is_missing() -> None:
    machine = Machine()
    device = machine.devices[0]
    blocks = [device.malloc(30 * MIB) for _ in range(2)]
    machine.begin_recording()
    for block in blocks:
        assert block is not None
        device.free(block)
    found = all_reasons(cut(dumped(machine), "free_requested"))
    assert "pending_at_start" in found["held"]
    assert "pending_at_start" in found["allocated"]
    assert "pending_at_start" not in found.get("requested", ())
    snap = mr.open(build.dump(cut(dumped(machine), "free_requested")))
    found_held = verdict(snap, snap.replay().measure("held"))
    assert (found_held.exact, found_held.trusted) == (False, True)


def test_more_than_the_segments_have() -> None:
    """A block in the file's segments that is larger than its segment."""
    builder = SnapshotBuilder().alloc(2**30, 512)
    builder.segment(2**30, 2**21, blocks=[builder.block(2**30, 512, 512)])
    builder.segment(2**31, 2**21, blocks=[builder.block(2**31, 2**21, 2**23)])
    found = all_reasons(builder.build())
    assert "measures_disagree" in found["active"]
    assert "measures_disagree" in found["device"]


def test_a_segment_that_requests_passed_by() -> None:
    """Its segment_alloc is missing: as if it had been there, and empty, from the start."""
    machine = Machine()
    device = machine.devices[0]
    device.malloc(100)
    machine.begin_recording()
    device.malloc(30 * MIB)
    device.malloc(40 * MIB)
    # Of the first nobody can tell: what asked before it was larger, or it was taken.
    assert "reserved" not in all_reasons(cut(dumped(machine), "segment_alloc", 0))
    found = all_reasons(cut(dumped(machine), "segment_alloc", 1))
    assert found["reserved"] == ("segment_events_disagree",)
    assert "segment_events_disagree" in found["device"]
    assert "requested" not in found


@pytest.mark.parametrize("released", [False, True])
def test_a_free_while_the_driver_is_asked(released: bool) -> None:
    """By another thread, which it may where the allocator does not keep its lock meanwhile."""
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.malloc(30 * MIB)
    device.free(block)
    snapshot = dumped(machine)
    snapshot["allocator_settings"]["release_lock_on_cudamalloc"] = released
    (trace,) = snapshot["device_traces"]
    kinds = [event["action"] for event in trace]
    assert kinds == [*["segment_alloc", "alloc"] * 2, "free_requested", "free_completed"]
    trace[2:2] = trace[4:]
    del trace[6:]
    reasons = () if released else ("segment_events_disagree",)
    found = all_reasons(snapshot)
    assert found.get("reserved", ()) == found["device"] == reasons


def test_segments_of_the_start_that_may_have_come_later() -> None:
    machine, device = recorder()
    device.malloc(30 * MIB)
    device.malloc(100)
    snapshot = without(dumped(machine), "segment_alloc")
    found = all_reasons(snapshot)
    assert found == {"device": ("segment_events_unseen",), "reserved": ("segment_events_unseen",)}
    snap = mr.open(build.dump(snapshot))
    told = verdict(snap, snap.replay().measure("reserved"))
    assert (told.exact, told.trusted) == (False, True)


def test_segment_events_that_are_missing() -> None:
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    device.empty_cache()
    found = all_reasons(without(dumped(machine), "segment_free"))
    assert found["reserved"] == ("segment_events_disagree",)
    assert found["device"] == ("segment_events_disagree", "blocks_disagree")
    assert "requested" not in found


def test_segment_events_that_were_all_skipped() -> None:
    """Nothing contradicts the final segments but allocations in memory that is not there."""
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    device.empty_cache()
    snapshot = without(without(dumped(machine), "segment_free"), "segment_alloc")
    assert all_reasons(snapshot)["reserved"] == ("segment_events_disagree",)


def test_allocations_where_nothing_is_free() -> None:
    machine, device = recorder()
    device.malloc(1000)
    block = device.malloc(1000)
    assert block is not None
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
    trace.append(trace[-1] | {"addr": block.addr + 512, "size": 10})
    found = all_reasons(snapshot)
    assert found["active"] == ("segments_disagree", "blocks_misplaced")
    assert found["requested"] == found["reserved"] == ("segments_disagree",)


def test_blocks_at_the_end_that_are_others() -> None:
    machine, device = recorder()
    device.malloc(1000)
    snapshot = dumped(machine)
    live, free = snapshot["segments"][0]["blocks"]
    live["size"] += 512
    free["size"] -= 512
    free["address"] += 512
    found = all_reasons(snapshot)
    assert found == {
        "device": ("segments_disagree", "blocks_disagree"),
        "active": ("segments_disagree", "blocks_disagree"),
        "allocated": ("segments_disagree", "blocks_disagree"),
    }


def test_a_recording_that_begins_late() -> None:
    machine = Machine()
    machine.devices[0].malloc(1000)
    machine.begin_recording()
    machine.devices[0].malloc(10)
    machine.devices[0].malloc(20)
    snapshot = dumped(machine)
    assert all_reasons(snapshot) == {"device": ("recording_begun_late",)}
    # What a range begins with was recorded.
    snap = mr.open(build.dump(snapshot), start=1)
    assert device_verdict(snap, snap.replay()).reasons == ()


def test_what_is_shown_may_be_exact_and_not_all() -> None:
    machine, device = recorder()
    device.malloc(1000)
    snap = mr.open(build.dump(dumped(machine) | {"trace_alloc_overflowed": True}))
    for name in MEASURES:
        found = verdict(snap, snap.replay().measure(name))
        assert (found.trusted, found.exact) == (False, True)
        assert found.reasons == ("ring_overflow",)


@given(recordings())
def test_no_whole_recording_is_doubted(recording: Recording) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        found = device_verdict(snap, replay)
        actions = {event["action"] for event in recording.snapshot["device_traces"][device]}
        if EVENTS_LOST_BEFORE.intersection(found.reasons):
            assert recording.truths[device].dropped
        elif not actions & {"alloc", "free_requested"}:
            # What is left of a ring may be a free whose request was dropped.
            short = {"skip_actions"} if "free_completed" in actions else set()
            doubts = set(found.reasons) - REMARKS - short
            assert not doubts or doubts & {"no_events", "no_allocations"}, found
        elif "free_requested" in actions:
            assert found.trusted, found
        else:  # a short trace may look as if requests had been skipped
            assert set(found.reasons) <= REMARKS | {"skip_actions"}, found
        for name in MEASURES:
            if verdict(snap, replay.measure(name)).exact:
                assert replay.measure(name).series.tolist() == recording.truths[device].series(name)


def test_strict_looks_at_what_the_measure_does_not_need() -> None:
    # Nothing about requested bytes contradicts itself; but the block was never free to take.
    machine, device = recorder()
    first, second = device.malloc(3 * MIB), device.malloc(3 * MIB)
    assert first is not None
    assert second is not None
    device.free(second)
    device.malloc(2 * MIB)
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
    del trace[[event["action"] for event in trace].index("free_requested") :][:2]
    taken = [event for event in trace if event["addr"] == second.addr and event["size"] > 2 * MIB]
    for event in taken:
        event["addr"] = first.addr + MIB
    snap = mr.open(build.dump(snapshot))
    usage = snap.replay().measure()
    assert "blocks_misplaced" in device_verdict(snap, snap.replay()).reasons
    own, whole = verdict(snap, usage), verdict(snap, usage, strict=True)
    assert "blocks_misplaced" in whole.reasons
    assert not whole.trusted
    assert whole.exact == own.exact
    assert set(own.reasons) <= set(whole.reasons)


def test_a_device_that_is_read_alone_has_the_same_verdict() -> None:
    """Nothing before its first event is left out: what is pending at the start is known."""
    data = build.dump(record(0, steps=28, max_entries=3, private_pools=False).snapshot)
    whole, alone = mr.open(data), mr.open(data, device=0)
    for name in MEASURES:
        found, want = (verdict(snap, snap.replay(0).measure(name)) for snap in (alone, whole))
        assert found == want, name
    assert "pending_at_start" in device_verdict(whole, whole.replay(0)).reasons


def test_an_estimate_says_so() -> None:
    machine, device = recorder()
    device.malloc(1000)
    of_a_run = dumped(machine) | {"memreplay": {"version": 1, "recorder": "record"}}
    assert all_reasons(of_a_run) == {"device": ()}
    snapshot = dumped(machine) | {"memreplay": {"version": 1, "recorder": "estimate"}}
    no_allocator = ("fake_tensors", "no_allocator")
    assert all_reasons(snapshot) == {
        "device": ("fake_tensors",),
        "requested": ("fake_tensors",),
        "held": ("fake_tensors",),
        "active": no_allocator,
        "allocated": no_allocator,
        "reserved": no_allocator,
    }
    snap = mr.open(build.dump(snapshot))
    requested, reserved = (
        verdict(snap, snap.replay().measure(n)) for n in ("requested", "reserved")
    )
    assert (requested.trusted, requested.exact) == (True, False)
    assert (reserved.trusted, reserved.exact) == (False, False)
