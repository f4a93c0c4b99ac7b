"""Tests of analysis/planning/training_levers.py: each lever on a training step with known sizes."""

from __future__ import annotations

import pytest

from memreplay.analysis.planning import training_levers as training
from memreplay.analysis.planning.lever import Lever, Recording
from memreplay.analysis.planning.levers_of import levers_of
from tests.unit.analysis.planning.training import MIB, recorded


def peak(recording: Recording, lever: Lever) -> int:
    assert lever.effect is not None
    program = recording.program().with_effect(lever.effect)
    found = recording.replay.simulate(edit=program.edit(recording.replay))
    assert found.outcome.requested_peak_bytes == program.peak()
    return program.peak()


def by_name(recording: Recording) -> dict[tuple[str, str], Lever]:
    return {(one.name, one.argument): one for one in levers_of(recording)}


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded()


# In the optimizer's step: parameters, gradients and state are 40 MiB each, with Adam's two.
@pytest.mark.parametrize(
    "lever, left",
    [
        (("fused", "on"), 160),
        (("foreach", "off"), 192),
        (("offload-state", ""), 120),
        (("optimizer", "sgd"), 80),
        (("optimizer", "8bit"), 120 + 80 * training.EIGHT_BIT),
    ],
)
def test_optimizer_levers_save_state_and_temporaries(
    recording: Recording, lever: tuple[str, str], left: float
) -> None:
    assert recording.program().peak() == 200 * MIB
    assert peak(recording, by_name(recording)[lever]) == int(left * MIB)


def test_setting_gradients_to_none_frees_them_during_the_forward_pass() -> None:
    kept, freed = recorded(to_none=False, block=100), recorded(block=100)
    lever = by_name(kept)["set-to-none", ""]
    assert kept.program().peak() > freed.program().peak()
    assert peak(kept, lever) == freed.program().peak()
    assert ("set-to-none", "") not in by_name(freed)


def test_accumulating_gradients_shrinks_what_depends_on_the_batch() -> None:
    whole, half = recorded(block=100), recorded(block=50)
    lever = by_name(whole)["accumulate", "2"]
    # All but the blocks is as large in both; the gradients are there from the beginning.
    found = peak(whole, lever)
    assert half.program().peak() + 30 * MIB < found <= half.program().peak() + 40 * MIB


def test_sharing_among_ranks_keeps_two_gathered_blocks() -> None:
    recording = recorded()
    assert peak(recording, by_name(recording)["shard", "4"]) == (160 // 4 + 40 + 80) * MIB


def test_levers_say_what_they_cost() -> None:
    for one in levers_of(recorded(to_none=False)):
        assert one.title
        assert one.why
        assert one.edit
        assert one.guess
