"""Tests of analysis/trust/trust.py: reasons for each measure."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.trust.trust import (
    device_verdict,
    verdict,
)
from memreplay.snapshot import model
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB
from tests.build import Snapshot, SnapshotBuilder
from tests.unit.analysis.trust.recordings import all_reasons, dumped, reasons, recorder, without


def test_complete_recording_is_trusted() -> None:
    machine, device = recorder()
    block = device.malloc(3 * MIB)
    device.malloc(100)
    assert block is not None
    device.free(block)
    assert all_reasons(dumped(machine)) == {"device": ()}


def tail(changed: int) -> Snapshot:
    """Return a dump: its trace was read before this many blocks were freed, its segments after."""
    machine, device = recorder()
    blocks = [device.malloc(1000 + 512 * i) for i in range(40)]
    trace = dumped(machine)["device_traces"]
    for block in blocks[: 2 * changed : 2]:
        assert block is not None
        device.free(block)
    return dumped(machine) | {"device_traces": trace}


def test_two_blocks_that_changed_during_the_dump_are_a_race() -> None:
    found = all_reasons(tail(2))
    assert found == {
        "device": ("segments_disagree", "blocks_disagree", "tail_race"),
        "requested": ("segments_disagree",),
        "held": ("segments_disagree",),
        "active": ("segments_disagree", "blocks_disagree"),
        "allocated": ("segments_disagree", "blocks_disagree"),
        # Segments may have been allocated and freed with the blocks.
        "reserved": ("segments_disagree",),
    }


def test_sixteen_changed_blocks_are_still_a_race() -> None:
    found = all_reasons(tail(16))
    assert found["device"] == ("segments_disagree", "blocks_disagree", "tail_race")


def test_more_changed_blocks_mean_that_the_recording_had_stopped() -> None:
    found = all_reasons(tail(17))
    assert found["device"] == ("segments_disagree", "blocks_disagree", "recording_stopped")
    assert found["reserved"] == ("segments_disagree",)


def test_reason_if_segments_were_allocated_after_the_recording() -> None:
    machine, device = recorder()
    block = device.malloc(1000)
    trace = dumped(machine)["device_traces"]
    device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    found = all_reasons(dumped(machine) | {"device_traces": trace})
    assert found["reserved"] == found["requested"] == ("segments_disagree",)


def test_lost_frees_are_not_a_race() -> None:
    snapshot = tail(2)
    (trace,) = snapshot["device_traces"]
    trace.append(dict(next(event for event in trace if event["action"] == "alloc")))
    assert not {"tail_race", "recording_stopped"} & set(all_reasons(snapshot)["device"])


def test_skipped_completions_are_not_a_race() -> None:
    machine, device = recorder()
    for size in (1000, 30 * MIB):
        block = device.malloc(size)
        assert block is not None
        device.free(block)
    found = all_reasons(without(dumped(machine), "free_completed"))
    assert found["device"] == ("segments_disagree", "blocks_disagree", "completions_skipped")
    assert found["requested"] == ("segments_disagree",)
    assert "held" not in found


def test_skipped_free_requests_affect_held_and_allocated() -> None:
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


def test_first_event_completes_a_free_that_was_requested_before() -> None:
    """A recorder that keeps a single event often keeps such a completion. The final state is known
    anyway.
    """
    builder = SnapshotBuilder()
    live = builder.block(1 << 21, 512, 300)
    builder.free_completed(1 << 20, 300).segment(1 << 21, 2 * MIB, blocks=[live])
    found = all_reasons(builder.build())
    for measure in ("device", "held", "allocated"):
        assert "skip_actions" not in found[measure]
        assert "pending_at_start" in found[measure]
    builder.free_completed(1 << 22, 300)  # the trace has no request for this free
    assert "skip_actions" in all_reasons(builder.build())["held"]


def test_carried_over_memory_with_stacks_was_recorded() -> None:
    """A message that the memory has no stack would be wrong, and one that recording began late
    would be useless.
    """
    for frames, late in ([("f", "a.py", 1)], False), ([], True):
        builder = SnapshotBuilder().alloc(1 << 20, 300).free(1 << 20, 300)
        large = builder.block(1 << 21, MIB, MIB, frames=frames)
        builder.segment(1 << 21, 2 * MIB, blocks=[large])
        assert ("recording_begun_late" in all_reasons(builder.build())["device"]) == late


def test_bare_list_of_segments_has_no_events() -> None:
    builder = SnapshotBuilder()
    builder.segment(1 << 20, 512, blocks=[builder.block(1 << 20, 512, 300)])
    snap = mr.open(build.dump(builder.build()["segments"]))
    assert device_verdict(snap, snap.replay(0)).reasons == ("no_events", "segments_only")


def test_frees_pending_on_a_stream_are_exact() -> None:
    machine, device = recorder()
    block = device.malloc(1000)
    assert block is not None
    device.record_stream(block, 7)
    device.free(block)
    snap = mr.open(build.dump(dumped(machine)))
    assert device_verdict(snap, snap.replay()) == model.Verdict(True, "exact", ("pending_frees",))
    assert snap.replay().measure("held").end_bytes == 0
    assert snap.replay().measure("requested").end_bytes == 1000


def test_pool_restored_to_a_checkpoint_is_noted() -> None:
    machine, device = recorder()
    device.begin_pool((1, 0))
    device.malloc(1000)
    device.end_pool()
    device.set_checkpoint((1, 0), device.checkpoint((1, 0)))
    assert all_reasons(dumped(machine)) == {"device": ("synthetic_pool_events",)}


@pytest.mark.parametrize("off, against", [(0, ()), (512, ("snapshot_events_disagree",))])
def test_snapshot_events_must_match_the_replay(off: int, against: tuple[str, ...]) -> None:
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
    """Build a large carried-over block with slack, and a snapshot event that includes the slack."""
    machine = Machine()
    device = machine.devices[0]
    room, behind = device.malloc(3 * MIB + 1024), device.malloc(2 * MIB)
    assert room is not None
    assert behind is not None
    device.free(room)
    block = device.malloc(3 * MIB - 500_000)  # the request gets the whole block
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


def test_assumed_sizes_contradict_nothing() -> None:
    against = ("blocks_assumed",)
    found = all_reasons(slack(freed_later=True))
    assert found["active"] == found["allocated"] == against
    assert found["device"] == (*against, "recording_begun_late")
    assert "snapshot_events_disagree" in all_reasons(slack(True, more=2 * MIB))["active"]
    assert "snapshot_events_disagree" in all_reasons(slack(True, more=-MIB))["active"]
    # The size of a block that is live at the end is known.
    assert all_reasons(slack(freed_later=False))["active"] == ("no_allocations",)


def cut(snapshot: Snapshot, action: str, at: int = 0) -> Snapshot:
    """Return the snapshot without one event that has this action."""
    (trace,) = snapshot["device_traces"]
    found = [event for event in trace if event["action"] == action]
    trace.remove(found[at])
    return snapshot


def test_reason_if_an_allocation_is_missing() -> None:
    """The block then seems to be live from the start, before its segment was allocated."""
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    found = all_reasons(cut(dumped(machine), "alloc"))
    against = ("start_impossible", "measures_disagree")
    assert found["requested"] == found["held"] == found["reserved"] == against
    assert set(against) <= set(found["device"])
    assert "segment_events_disagree" not in found["device"]


def test_reason_if_carried_over_blocks_overlap() -> None:
    builder = SnapshotBuilder().alloc(9 * 2**20, 512).free(9 * 2**20, 512)
    builder.free_requested(1024, 1024).free_completed(1024, 1024)
    builder.free_requested(1536, 512).free_completed(1536, 512)
    builder.segment(1024, 2**21, blocks=[builder.block(1024, 2**21, 0, "inactive")])
    builder.segment(9 * 2**20, 2**21, blocks=[builder.block(9 * 2**20, 2**21, 0, "inactive")])
    assert reasons(builder) == ("start_impossible",)


def test_reason_if_a_block_outlives_its_segment() -> None:
    machine = Machine()
    device = machine.devices[0]
    block = device.malloc(30 * MIB)
    assert block is not None
    machine.begin_recording()
    device.malloc(100)  # something remains
    device.free(block)
    device.empty_cache()
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
    frees = [event for event in trace if event["action"].startswith("free")]
    snapshot["device_traces"] = [[event for event in trace if event not in frees] + frees]
    found = all_reasons(snapshot)
    assert "start_impossible" in found["requested"]
    assert "start_impossible" in found["device"]


def test_reason_if_a_free_completion_is_missing() -> None:
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


def test_reason_if_a_free_request_is_missing() -> None:
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


def test_reason_if_blocks_are_larger_than_segments() -> None:
    """A block listed in the file is larger than its segment."""
    builder = SnapshotBuilder().alloc(2**30, 512)
    builder.segment(2**30, 2**21, blocks=[builder.block(2**30, 512, 512)])
    builder.segment(2**31, 2**21, blocks=[builder.block(2**31, 2**21, 2**23)])
    found = all_reasons(builder.build())
    assert "measures_disagree" in found["active"]
    assert "measures_disagree" in found["device"]


def test_reason_if_requests_ignored_a_free_segment() -> None:
    """The segment's segment_alloc is missing, so the segment seems to exist, and be free, from the
    start.
    """
    machine = Machine()
    device = machine.devices[0]
    device.malloc(100)
    machine.begin_recording()
    device.malloc(30 * MIB)
    device.malloc(40 * MIB)
    # Without the first segment_alloc nothing is proven: either the earlier request was larger, or
    # the segment was in use.
    assert "reserved" not in all_reasons(cut(dumped(machine), "segment_alloc", 0))
    found = all_reasons(cut(dumped(machine), "segment_alloc", 1))
    assert found["reserved"] == ("segment_events_disagree",)
    assert "segment_events_disagree" in found["device"]
    assert "requested" not in found


@pytest.mark.parametrize("released", [False, True])
def test_free_during_a_driver_call_needs_a_released_lock(released: bool) -> None:
    """Another thread can free memory only if the allocator releases its lock during the call."""
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


def test_segments_without_events_make_reserved_an_estimate() -> None:
    machine, device = recorder()
    device.malloc(30 * MIB)
    device.malloc(100)
    snapshot = without(dumped(machine), "segment_alloc")
    found = all_reasons(snapshot)
    assert found == {"device": ("segment_events_unseen",), "reserved": ("segment_events_unseen",)}
    snap = mr.open(build.dump(snapshot))
    told = verdict(snap, snap.replay().measure("reserved"))
    assert (told.exact, told.trusted) == (False, True)


def test_reason_if_segment_frees_are_missing() -> None:
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    device.empty_cache()
    found = all_reasons(without(dumped(machine), "segment_free"))
    assert found["reserved"] == ("segment_events_disagree",)
    assert found["device"] == ("segment_events_disagree", "blocks_disagree")
    assert "requested" not in found


def test_reason_if_all_segment_events_are_missing() -> None:
    """The only contradiction is an allocation outside of the final segments."""
    machine, device = recorder()
    block = device.malloc(30 * MIB)
    assert block is not None
    device.free(block)
    device.empty_cache()
    snapshot = without(without(dumped(machine), "segment_free"), "segment_alloc")
    assert all_reasons(snapshot)["reserved"] == ("segment_events_disagree",)


def test_reason_if_an_allocation_is_inside_a_used_block() -> None:
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


def test_reason_if_the_final_blocks_differ() -> None:
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
