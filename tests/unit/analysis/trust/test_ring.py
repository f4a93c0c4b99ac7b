"""ring: detecting a full ring buffer from the events, without suspecting complete recordings."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.trust.ring import dropped_events, overflow_signs, overflowed
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.allocator import Device, Machine
from tests.allocator_blocks import MIB
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder

CODE = (("train", "train.py", 5),)


def worked(device: Device, allocations: int, size: int = 1000) -> None:
    """Allocate blocks, and keep the last hundred live."""
    live = []
    for _ in range(allocations):
        live.append(device.malloc(size, stack=CODE))
        if len(live) > 100 and (first := live.pop(0)) is not None:
            device.free(first)


def large_then_small(max_entries: int | None, begun: str = "first") -> mr.Snapshot:
    """Build one large tensor, then 2,000 small allocations. The large one is recorded or carried
    over.
    """
    machine = Machine()
    device = machine.devices[0]
    if begun == "first":
        machine.begin_recording()
    large = device.malloc(3_000 * MIB, stack=CODE)
    assert large is not None
    device.free(large)
    if begun == "late":
        machine.begin_recording()
    worked(device, 2000)
    return mr.open(build.dump(machine.dump(max_entries)[0]))


def signs(snap: mr.Snapshot, device: int = 0) -> tuple[str, ...]:
    return overflow_signs(snap, snap.replay(device))


@pytest.mark.parametrize("entries", [500, 1000, 1024, 2000, 3000, 5000, 2500, 4096])
def test_round_event_count_suggests_a_full_ring(entries: int) -> None:
    snap = large_then_small(entries)
    assert overflowed(snap, 0) is None
    assert signs(snap) == ("round_count",)
    for name in MEASURES:
        found = verdict(snap, snap.replay(0).measure(name))
        assert "ring_overflow_likely" in found.reasons
        assert not found.trusted
        # If the oldest events were dropped between the two events of a free, `held` is an estimate.
        assert found.exact or {"skip_actions", "pending_at_start"}.intersection(found.reasons)
    assert "ring_overflow_likely" in device_verdict(snap, snap.replay(0)).reasons


@pytest.mark.parametrize("entries", [777, 999, 1003, 3333, 4097, 4321])
def test_recorded_stacks_of_carried_over_blocks_suggest_a_full_ring(entries: int) -> None:
    """Blocks with stacks were recorded, so if they're carried over, their events were dropped."""
    snap = large_then_small(entries)
    assert signs(snap) == ("recorded_before",)
    assert not verdict(snap, snap.replay(0).measure()).trusted


@pytest.mark.parametrize("entries", [None, 10_000])
def test_ring_that_was_not_full_is_not_suspected(entries: int | None) -> None:
    assert signs(large_then_small(entries)) == ()


def test_a_few_carried_over_blocks_with_stacks_are_not_evidence() -> None:
    """In recordings that started late, workspaces have stacks."""
    builder = SnapshotBuilder()
    old = [
        builder.block((1 << 30) + i * 512, 512, 300, frames=[("f", "a.py", 1)] if i < 2 else [])
        for i in range(4)
    ]
    builder.segment(1 << 30, 2 * MIB, blocks=old)
    builder.alloc(1 << 20, 300).free(1 << 20, 300)
    assert signs(mr.open(build.dump(builder.build()))) == ()


def test_complete_recording_may_have_a_round_number_of_events() -> None:
    """The recording starts with nothing reserved, so no earlier events are missing."""
    machine = Machine()
    machine.begin_recording()
    worked(machine.devices[0], 367)
    device = machine.devices[0]
    while len(device.history) < 1000:
        device.record_snapshot()
    snap = mr.open(build.dump(machine.dump()[0]))
    assert snap.trace_events(0) == 1000
    assert signs(snap) == ()
    assert verdict(snap, snap.replay(0).measure()).trusted


def test_late_recording_may_have_a_round_number_of_iterations() -> None:
    """Only memory that was allocated in the trace has a stack."""
    machine = Machine()
    device = machine.devices[0]
    device.malloc(MIB)
    machine.begin_recording()
    for _ in range(1000):
        block = device.malloc(1000, stack=CODE)
        assert block is not None
        device.free(block)
    snap = mr.open(build.dump(machine.dump()[0]))
    assert snap.trace_events(0) == 3000
    assert signs(snap) == ()


def test_most_common_ring_size_alone_suggests_a_full_ring() -> None:
    """If a program empties its cache after the recording started, no memory from before is left."""
    machine = Machine()
    device = machine.devices[0]
    device.malloc(MIB)
    machine.begin_recording()
    for _ in range(33_400):
        block = device.malloc(1000, stack=CODE)
        assert block is not None
        device.free(block)
    for entries, expected in ((100_000, ("round_count",)), (100_001, ()), (90_000, ())):
        assert signs(mr.open(build.dump(machine.dump(entries)[0]))) == expected


def test_overflow_flag_in_the_file_takes_precedence() -> None:
    machine = Machine()
    machine.begin_recording()
    worked(machine.devices[0], 2000)
    made = machine.dump(1000)[0]
    assert signs(mr.open(build.dump(made))) == ("round_count",)
    for flag in (True, False):
        snap = mr.open(build.dump(made | {"trace_alloc_overflowed": flag}))
        assert signs(snap) == ()
        assert ("ring_overflow" in verdict(snap, snap.replay(0).measure()).reasons) is flag


def test_range_that_begins_later_is_not_suspected() -> None:
    machine = Machine()
    machine.begin_recording()
    worked(machine.devices[0], 2000)
    data = build.dump(machine.dump(1000)[0])
    assert signs(mr.open(data, stop=500)) == ("round_count",)
    assert signs(mr.open(data, start=10)) == ()


def test_range_that_ends_earlier_ignores_later_segments() -> None:
    machine = Machine()
    device = machine.devices[0]
    old = device.malloc(MIB)
    machine.begin_recording()
    assert old is not None
    device.free(old)
    for _ in range(3):
        device.malloc(20 * MIB, stack=CODE)
    data = build.dump(machine.dump()[0])
    assert signs(mr.open(data)) == signs(mr.open(data, stop=2)) == ()


def two_devices(others: int, size: int, max_entries: int | None) -> mr.Snapshot:
    machine = Machine(devices=2)
    for device in machine.devices:
        device.malloc(MIB)
    machine.begin_recording()
    for device in machine.devices:
        device.malloc(30 * MIB, stack=CODE)
    worked(machine.devices[0], 900)
    device = machine.devices[1]
    for _ in range(others):
        block = device.malloc(size, stack=CODE)
        assert block is not None
        device.free(block)
        device.record_snapshot()
    return mr.open(build.dump(machine.dump(max_entries)[0]))


def test_equal_event_counts_of_different_devices_suggest_full_rings() -> None:
    snap = two_devices(700, 3 * MIB, 1237)
    assert snap.trace_events(0) == snap.trace_events(1) == 1237
    assert signs(snap) == signs(snap, 1) == ("same_count",)
    assert signs(two_devices(701, 3 * MIB, None)) == ()


def test_equal_event_counts_for_the_same_work_are_not_suspected() -> None:
    machine = Machine(devices=2)
    for device in machine.devices:
        device.malloc(MIB)
    machine.begin_recording()
    for device in machine.devices:
        worked(device, 900)
    snap = mr.open(build.dump(machine.dump()[0]))
    assert snap.trace_events(0) == snap.trace_events(1) >= 1000
    assert signs(snap) == signs(snap, 1) == ()


def annotated(max_entries: int | None, *, idle: bool = False, first: str = "") -> mr.Snapshot:
    """Annotate 100 steps with the same number of events each. `first` names an annotation before
    all events.
    """
    builder = SnapshotBuilder()
    builder.segment(1 << 30, 2 * MIB, blocks=[builder.block(1 << 30, 512, 300)])
    time = 1_000
    events = []
    if first:
        for at, stage in ((10, "START"), (20, "END")):
            builder.annotation(first, stage, time_us=at)
    for step in range(100):
        name = f"ProfilerStep#{step}"
        builder.annotation(name, "START", time_us=time)
        for i in range(0 if idle and step % 2 else 5):
            events += [("alloc", (step * 5 + i + 1) << 12, time + 2), ("free", 0, time + 3)]
        builder.annotation(name, "END", time_us=time + 9)
        time += 10
    made = builder.build()
    trace: list[Any] = []
    address = 0
    for action, addr, at in events:
        if action == "alloc":
            address = addr
            trace.append({"action": "alloc", "addr": addr, "size": 300, "stream": 0, "time_us": at})
        else:
            trace += (
                {"action": one, "addr": address, "size": 300, "stream": 0, "time_us": at}
                for one in ("free_requested", "free_completed")
            )
    made["device_traces"] = [trace[-max_entries:] if max_entries else trace]
    return mr.open(build.dump(made))


def test_early_annotations_without_events_suggest_a_full_ring() -> None:
    assert signs(annotated(777)) == ("annotations_before",)
    assert signs(annotated(None)) == ()
    # Annotations that are often empty prove nothing.
    assert signs(annotated(371, idle=True)) == ()
    # An annotation with another name, such as data loading, proves nothing either.
    assert signs(annotated(None, first="load data")) == ()


def test_equal_numbers_of_events_and_annotations_suggest_full_rings() -> None:
    builder = SnapshotBuilder()
    old = builder.block(1 << 30, 512, 300, frames=[("f", "a.py", 1)])
    builder.segment(1 << 30, 2 * MIB, blocks=[old])
    for i in range(501):
        builder.alloc((i + 1) << 12, 300).free(((i + 1) << 12), 300)
    for i in range(1503):
        builder.annotation(f"a{i}", "START", time_us=1)
    snap = mr.open(build.dump(builder.build()))
    assert (snap.trace_events(0), snap.annotation_count) == (1503, 1503)
    assert signs(snap) == ("same_count",)


def test_single_event_with_recorded_blocks_suggests_a_full_ring() -> None:
    snap = large_then_small(1)
    assert signs(snap) == ("state_only",)
    assert "ring_overflow_likely" in verdict(snap, snap.replay(0).measure()).reasons
    # A complete recording may also have a single event, but its other blocks have no stacks.
    builder = SnapshotBuilder().alloc(1 << 12, 300)
    builder.segment(1 << 30, 2 * MIB, blocks=[builder.block(1 << 30, 512, 300)])
    assert signs(mr.open(build.dump(builder.build()))) == ()


# ---- with memreplay's recorder the result is certain


@pytest.mark.parametrize(
    "noted, expected",
    [
        ({"max_entries": None, "dropped_events": [0]}, False),
        ({"max_entries": 1000, "dropped_events": [5003]}, True),
        ({"max_entries": 1000, "dropped_events": [0]}, True),  # full
        ({"max_entries": 1001, "dropped_events": [0]}, False),
        # The program restarted the recording, with a smaller ring buffer.
        ({"max_entries": None, "dropped_events": [7]}, True),
        ({"max_entries": "many", "dropped_events": "some"}, None),
        ({"dropped_events": [-1]}, None),
        ({"max_entries": True}, None),
    ],
)
def test_recorder_says_whether_events_were_dropped(
    noted: dict[str, Any], expected: bool | None
) -> None:
    machine = Machine()
    machine.begin_recording()
    worked(machine.devices[0], 2000)
    made = machine.dump(1000)[0] | {"memreplay": {"recorder": "record", **noted}}
    snap = mr.open(build.dump(made))
    assert overflowed(snap, 0) is expected
    assert signs(snap) == (("round_count",) if expected is None else ())
    found = verdict(snap, snap.replay(0).measure()).reasons
    assert ("ring_overflow" in found) is bool(expected)


def test_dropped_events_are_read_per_device() -> None:
    made = SnapshotBuilder().alloc(1, 9).build() | {"memreplay": {"dropped_events": [3, "x"]}}
    snap = mr.open(build.dump(made))
    assert [dropped_events(snap, device) for device in (-1, 0, 1, 2)] == [0, 3, 0, 0]


# ---- complete recordings


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 60))
def test_complete_recordings_are_not_suspected(seed: int, devices: int, late: int) -> None:
    """Random programs are recorded completely. They are too short to have a round number of events
    by chance, unless it's 1,000.
    """
    steps = random.Random(seed).randint(1, 250)
    recording = record(seed, steps=steps, devices=devices, late=late)
    snap = mr.open(build.dump(recording.snapshot))
    for device in snap.devices:
        assert signs(snap, device) == ()
