"""phases: each event's phase in a step matches what a loop over all events finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.phases import PhaseTimes
from memreplay.analysis.comparing.records import PHASES
from memreplay.analysis.comparing.sides import BaselineSide, Scope, SnapshotSide
from memreplay.analysis.groups.grouping import Grouper
from memreplay.snapshot.model import MeasureName
from tests import build, oracle, oracle_measures
from tests.allocator_strategies import Recording, recordings
from tests.build import FrameSpec, SnapshotBuilder
from tests.oracle_groups import Groups

USAGES: dict[MeasureName, Callable[..., list[int]]] = {
    "requested": lambda snapshot, device: oracle.replay(snapshot, device).usage,
    "held": lambda snapshot, device: oracle_measures.held(snapshot, device).usage,
    "reserved": lambda snapshot, device: oracle_measures.reserved(snapshot, device).usage,
}


@given(recordings(max_steps=80), st.sampled_from(list(USAGES)))
def test_phases_match_the_oracle(recording: Recording, measure: MeasureName) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in snap.devices:
        usage = snap.replay(device).measure(measure)
        times = PhaseTimes(Grouper(snap, "phase"), usage)
        expected = Groups(recording.snapshot, device).phases()
        assert [times.at(i) for i in range(len(expected))] == expected
        assert times.at(-1) is None
        series = USAGES[measure](recording.snapshot, device)
        highest = {}
        for phase in PHASES:
            within = [i for i, name in enumerate(expected) if name == phase]
            if within:
                at = max(within, key=lambda i: (series[i], -i))
                highest[phase] = (series[at], at)
        assert {name: tuple(point) for name, point in times.highest(usage).items()} == highest


@given(recordings(max_steps=60), st.sampled_from(["requested", "held"]))
def test_baseline_has_the_phases_of_its_snapshot(
    recording: Recording, measure: MeasureName
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    if not snap.devices:
        return
    direct, boiled = SnapshotSide(snap), BaselineSide(baseline_of(snap, measure=measure), "x")
    for device in snap.devices:
        for phase in PHASES:
            scope = Scope(measure, phase=phase)
            level = direct.level(device, scope)
            assert boiled.level(device, scope) == level
            if level is not None:
                ours, theirs = boiled.at(device, scope).side, direct.at(device, scope).side
                assert (ours.bytes, ours.count) == (theirs.bytes, theirs.count)
                assert boiled.phase_at(device, level.event_index) == phase


TORCH = "/v/lib/python3.12/site-packages/torch"
FORWARD: list[FrameSpec] = [("forward", "/a/model.py", 3), ("main", "/a/train.py", 9)]
ADAM: list[FrameSpec] = [("step", f"{TORCH}/optim/adam.py", 1), ("main", "/a/train.py", 9)]
BACKWARD: list[FrameSpec] = [("torch::autograd::Engine::evaluate_function", "engine.cpp", 0)]
NOTHING: list[FrameSpec] = [("helper", "/a/util.py", 3), ("main", "/a/train.py", 9)]


def test_events_without_evidence_continue_the_phase() -> None:
    builder = SnapshotBuilder()
    for i, frames in enumerate((NOTHING, FORWARD, NOTHING, BACKWARD, NOTHING, ADAM)):
        builder.alloc((i + 1) << 20, 512, frames=frames)
    builder.free(1 << 20, 512, frames=NOTHING)
    snap = mr.open(build.dump(builder.build()))
    usage = snap.replay(0).measure()
    times = PhaseTimes(Grouper(snap, "phase"), usage)
    expected = [None, "forward", "forward", "backward", "backward", "optimizer"]
    assert [times.at(i) for i in range(6)] == expected
    assert times.at(usage.replay.events - 1) == "optimizer"


@pytest.mark.parametrize("allocs", [0, 2])
def test_phase_is_none_without_evidence(allocs: int) -> None:
    builder = SnapshotBuilder()
    for i in range(allocs):
        builder.alloc((i + 1) << 20, 512, frames=NOTHING)
    builder.free(9 << 20, 512)
    snap = mr.open(build.dump(builder.build()))
    usage = snap.replay(0).measure()
    times = PhaseTimes(Grouper(snap, "phase"), usage)
    assert times.highest(usage) == {}
    assert times.at(0) is None


def test_range_keeps_event_numbers() -> None:
    builder = SnapshotBuilder()
    for i, frames in enumerate((FORWARD, BACKWARD, ADAM, FORWARD)):
        builder.alloc((i + 1) << 20, 512 << i, frames=frames)
    snap = mr.open(build.dump(builder.build()), start=1, stop=3)
    usage = snap.replay(0).measure()
    times = PhaseTimes(Grouper(snap, "phase"), usage)
    assert [times.at(i) for i in (1, 2)] == ["backward", "optimizer"]
    assert times.highest(usage)["backward"].event_index == 1
