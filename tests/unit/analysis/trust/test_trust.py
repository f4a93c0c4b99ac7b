"""trust: each reason is given for a snapshot that causes it, and none for a clean snapshot."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given

import memreplay as mr
from memreplay.analysis.trust.ring import overflowed
from memreplay.analysis.trust.trust import (
    EVENTS_LOST_BEFORE,
    REMARKS,
    device_verdict,
    exactness_of,
    joined,
    least_exact,
    verdict,
)
from memreplay.snapshot.model import MEASURES, Verdict
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB
from tests.allocator_strategies import Recording, record, recordings
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.analysis.trust.recordings import all_reasons, dumped, reasons, recorder


def test_a_clean_snapshot_is_trusted() -> None:
    assert reasons(SnapshotBuilder().alloc(1, 9).finish_segments()) == ()


def test_missing_events_are_a_reason() -> None:
    builder = SnapshotBuilder()
    assert reasons(builder.segment(1, 512, blocks=[builder.block(1, 512, 5)])) == ("no_events",)


def test_missing_segments_are_a_reason() -> None:
    assert reasons(SnapshotBuilder().alloc(1, 9)) == ("no_segments",)
    # Everything was freed, so the segments aren't needed.
    assert reasons(SnapshotBuilder().alloc(1, 9).free(1, 9)) == ()
    without = {"device_traces": SnapshotBuilder().alloc(1, 9).free(1, 9).build()["device_traces"]}
    snap = mr.open(build.dump(without))
    assert verdict(snap, snap.replay(0).measure()).reasons == ("no_segments",)


def test_reason_if_segments_disagree_with_the_trace() -> None:
    builder = SnapshotBuilder().alloc(1, 9)
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9, "inactive")])
    assert reasons(builder) == ("segments_disagree",)


def test_reason_if_the_file_is_truncated() -> None:
    builder = SnapshotBuilder().alloc(1, 9).alloc(2, 9).alloc(3, 9)
    data = build.dump(builder.finish_segments().build())
    snap = mr.open(data[:-40], salvage=True)
    assert verdict(snap, snap.replay(0).measure()).reasons == ("truncated",)


def test_reason_if_allocs_and_frees_do_not_match() -> None:
    builder = SnapshotBuilder().alloc(1, 9).free(1, 9).free_completed(1, 9)
    assert reasons(builder.finish_segments()) == ("unmatched_frees",)
    builder = SnapshotBuilder().alloc(1, 9).alloc(1, 9)
    assert reasons(builder.finish_segments()) == ("double_allocs",)
    builder = SnapshotBuilder().alloc(1, 9).free_completed(1, 8)
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9, "inactive")])
    assert reasons(builder) == ("size_mismatches",)


def test_missing_requested_sizes_are_a_reason() -> None:
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
def test_ring_overflow_is_detected(
    top: dict[str, Any], settings: dict[str, Any], expected: bool | None
) -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9).alloc(2, 9)
    for key, value in top.items():
        builder.top(key, value)
    if settings:
        builder.settings(**settings)
    snap = mr.open(build.dump(builder.finish_segments().build()))
    assert overflowed(snap) is expected


def test_ring_overflow_affects_only_its_device() -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).alloc(2, 9, device=1)
    builder.top("trace_alloc_overflowed", [False, True])
    snap = mr.open(build.dump(builder.finish_segments().build()))
    assert verdict(snap, snap.replay(0).measure()).reasons == ()
    assert verdict(snap, snap.replay(1).measure()).reasons == ("ring_overflow",)


@pytest.mark.parametrize("most, expected", [("many", None), ([], None), (0, None), (1, False)])
def test_ring_without_events_may_have_overflowed(most: Any, expected: bool | None) -> None:
    segment = {"address": 4096, "total_size": 2**20}
    data = build.dump({"segments": [segment], "trace_alloc_max_entries": most})
    assert overflowed(mr.open(data), 0) is expected


def test_idle_device_is_trusted_if_another_has_events() -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).finish_segments()
    builder.segment(4096, 2**20, device=1, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder, device=1) == ()


def test_trace_with_only_frees_is_trusted() -> None:
    builder = SnapshotBuilder().free(1, 9)
    assert reasons(builder.finish_segments()) == ()


@pytest.mark.parametrize("action", ["snapshot", "free_completed", "segment_alloc"])
def test_reason_if_the_program_left_no_events(action: str) -> None:
    """For example, the only event is from the dump itself, or left over from a recording with
    enabled="state".
    """
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


def test_segment_events_are_trusted_without_block_events() -> None:
    """This is as if `skip_actions` had left out all block events."""
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


def test_idle_device_with_a_snapshot_event_is_trusted() -> None:
    """PyTorch records a `snapshot` event on every device, used or not."""
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).alloc(2, 9, device=0)
    builder.finish_segments().snapshot_event(512, device=1)
    builder.segment(4096, 2**20, device=1, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder, device=1) == ()
    # For devices that weren't read, the number of events is enough.
    snap = mr.open(build.dump(builder.build()), device=1)
    assert verdict(snap, snap.replay(1).measure()).reasons == ()


def test_recorded_settings_are_believed() -> None:
    builder = SnapshotBuilder().snapshot_event(512)
    builder.segment(4096, 2**20, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder) == ("no_allocations",)
    builder.top("memreplay", {"recorder": "record", "max_entries": None})
    assert reasons(builder) == ()


def test_late_recording_is_noted() -> None:
    machine = Machine()
    machine.devices[0].malloc(1000)
    machine.begin_recording()
    machine.devices[0].malloc(10)
    machine.devices[0].malloc(20)
    snapshot = dumped(machine)
    assert all_reasons(snapshot) == {"device": ("recording_begun_late",)}
    # With a range, earlier events are in the file.
    snap = mr.open(build.dump(snapshot), start=1)
    assert device_verdict(snap, snap.replay()).reasons == ()


def test_exact_numbers_may_be_incomplete() -> None:
    machine, device = recorder()
    device.malloc(1000)
    snap = mr.open(build.dump(dumped(machine) | {"trace_alloc_overflowed": True}))
    for name in MEASURES:
        found = verdict(snap, snap.replay().measure(name))
        assert (found.trusted, found.exact) == (False, True)
        assert found.reasons == ("ring_overflow",)


@given(recordings())
def test_complete_recordings_are_trusted(recording: Recording) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        found = device_verdict(snap, replay)
        actions = {event["action"] for event in recording.snapshot["device_traces"][device]}
        if EVENTS_LOST_BEFORE.intersection(found.reasons):
            assert recording.truths[device].dropped
        elif not actions & {"alloc", "free_requested"}:
            # A ring may begin with a free whose request was dropped.
            short = {"skip_actions"} if "free_completed" in actions else set()
            doubts = set(found.reasons) - REMARKS - short
            assert not doubts or doubts & {"no_events", "no_allocations"}, found
        elif "free_requested" in actions:
            assert found.trusted, found
        else:  # in a short trace, all free requests may be missing by chance
            assert set(found.reasons) <= REMARKS | {"skip_actions"}, found
        for name in MEASURES:
            if verdict(snap, replay.measure(name)).exact:
                assert replay.measure(name).series.tolist() == recording.truths[device].series(name)


@pytest.mark.parametrize(
    "recording",
    [
        record(337744832, settings="npu, expandable, crowded", steps=60, late=150),
        record(921625031, settings="npu", steps=60, late=30, max_entries=40),
    ],
)
def test_npu_blocks_restored_before_the_recording_make_an_estimate(recording: Recording) -> None:
    """The restored blocks lack the padding. The trace doesn't show this, so the number is an
    estimate.
    """
    snap = mr.open(build.dump(recording.snapshot))
    active = snap.replay(0).measure("active")
    found = verdict(snap, active)
    assert active.series.tolist() != recording.truths[0].series("active")
    assert not found.exact
    assert "blocks_assumed" in found.reasons


def test_strict_checks_the_other_measures_too() -> None:
    # Requested bytes are consistent, but an allocation is inside a used block.
    machine, device = recorder()
    first, second = device.malloc(3 * MIB), device.malloc(3 * MIB)
    assert first is not None
    assert second is not None
    device.free(second)
    device.malloc(2 * MIB)
    snapshot = dumped(machine)
    (trace,) = snapshot["device_traces"]
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


def test_verdict_is_the_same_if_only_one_device_is_read() -> None:
    """The trace is so short that it starts with a pending free."""
    data = build.dump(record(0, steps=28, max_entries=3, private_pools=False).snapshot)
    whole, alone = mr.open(data), mr.open(data, device=0)
    for name in MEASURES:
        found, want = (verdict(snap, snap.replay(0).measure(name)) for snap in (alone, whole))
        assert found == want, name
    assert "pending_at_start" in device_verdict(whole, whole.replay(0)).reasons


def test_dry_run_without_an_allocator_is_an_estimate() -> None:
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


def test_word_exact_is_chosen_in_one_place() -> None:
    """All other code calls `exactness_of`, directly or through `least_exact` and `joined`."""
    package = ROOT / "src" / "memreplay"
    choosing = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r'"exact" if|else "estimated"', path.read_text(encoding="utf-8"))
    ]
    assert choosing == ["analysis/trust/trust.py"]


@pytest.mark.parametrize("parts", itertools.product([True, False], repeat=2))
def test_number_is_exact_if_all_its_parts_are(parts: tuple[bool, bool]) -> None:
    expected = "exact" if all(parts) else "estimated"
    graded_parts = [Verdict(True, exactness_of(one), ()) for one in parts]
    assert exactness_of(*parts) == expected
    assert least_exact(graded_parts) == expected
    assert joined(graded_parts, exact=all(parts)).exactness == expected
