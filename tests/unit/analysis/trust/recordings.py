"""Recordings to judge, and the reasons for doubt in them."""

from __future__ import annotations

import copy

import memreplay as mr
from memreplay.analysis.trust.trust import (
    device_verdict,
    verdict,
)
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.allocator import Device, Machine
from tests.build import Snapshot, SnapshotBuilder


def reasons(builder: SnapshotBuilder, device: int = 0) -> tuple[str, ...]:
    """Return the reasons not to trust requested bytes."""
    snap = mr.open(build.dump(builder.build()))
    found = verdict(snap, snap.replay(device).measure())
    assert found.trusted == (not found.reasons)
    return found.reasons


def all_reasons(snapshot: Snapshot, device: int = 0) -> dict[str, tuple[str, ...]]:
    """Return the device's reasons, and those of each measure that has any."""
    snap = mr.open(build.dump(snapshot))
    replay = snap.replay(device)
    found = {name: verdict(snap, replay.measure(name)).reasons for name in MEASURES}
    return {"device": device_verdict(snap, replay).reasons} | {
        name: those for name, those in found.items() if those
    }


def recorder() -> tuple[Machine, Device]:
    """Return a machine that records from the start, and its only device."""
    machine = Machine()
    machine.begin_recording()
    return machine, machine.devices[0]


def dumped(machine: Machine) -> Snapshot:
    return copy.deepcopy(machine.dump()[0])


def without(snapshot: Snapshot, *actions: str) -> Snapshot:
    """Return the snapshot without these actions, as with skip_actions."""
    (trace,) = snapshot["device_traces"]
    trace[:] = [event for event in trace if event["action"] not in actions]
    return snapshot
