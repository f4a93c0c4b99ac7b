"""Tests of phases.py: the phase of a training step, guessed from a stack."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.categories.phases import PHASE_RULES
from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.groups.grouping import Grouper
from memreplay.engine.record._tracker import PHASES
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

MODEL = ("forward", "/home/me/model.py", 1)
STACKS: dict[str, list[FrameSpec]] = {
    "forward": [("aten::linear", "??", 0), MODEL],
    "backward": [("torch::autograd::Engine::evaluate_function", "??", 0)],
    "optimizer": [("adamw", "/site-packages/torch/optim/adamw.py", 3)],
    "recomputation": [
        MODEL,
        ("recompute_fn", "/site-packages/torch/utils/checkpoint.py", 9),
        ("torch::autograd::Engine::evaluate_function", "??", 0),
    ],
    "unknown": [("work", "/home/me/other.py", 1)],
}


def test_phases_match_the_recorder() -> None:
    assert {rule.name for rule in PHASE_RULES} <= set(PHASES)
    assert len(PHASE_RULES) <= len(DEFAULT_RULES)


@pytest.mark.parametrize("phase", STACKS)
def test_phase_comes_from_the_stack(phase: str) -> None:
    builder = SnapshotBuilder().alloc(0x1000, 64, frames=STACKS[phase])
    snap = mr.open(build.dump(builder.finish_segments().build()))
    (group,) = Grouper(snap, "phase").groups(snap.replay(0).measure(), 0, 0)[0]
    assert (group.label, group.bytes) == (phase, 64)


def test_carried_over_memory_has_its_own_phase() -> None:
    builder = SnapshotBuilder().alloc(0x1000, 64).finish_segments([(0, 0x9000, 8)])
    snap = mr.open(build.dump(builder.build()))
    groups = Grouper(snap, "phase").groups(snap.replay(0).measure(), -1, 0)[0]
    assert [group.label for group in groups] == ["before the recording"]
