"""Tests of analysis/advising/passes.py: forward passes that keep activations although no backward
pass follows.
"""

from __future__ import annotations

import pytest

from memreplay.analysis.advising.passes import kept_for_backward, unneeded
from tests.unit.analysis.advising.programs import (
    BACKWARD,
    EVALUATE,
    FORWARD,
    INFER,
    MIB,
    PARAMETER,
    Program,
    Stack,
)


def forward(made: Program, stack: Stack, layers: int = 12, size: int = 8 * MIB) -> list[int]:
    return [made.alloc(size, stack) for _ in range(layers)]


def backward(made: Program, kept: list[int]) -> None:
    for block in reversed(kept):
        gradient = made.alloc(8 * MIB, BACKWARD)
        made.free(block, gradient)


def freeing(made: Program, stack: Stack, layers: int = 12) -> None:
    """Run a pass that frees each result after the next one is allocated."""
    before = None
    for _ in range(layers):
        block = made.alloc(8 * MIB, stack)
        if before is not None:
            made.free(before)
        before = block
    assert before is not None
    made.free(before)


def test_inference_that_keeps_all_activations_gets_advice() -> None:
    made = Program()
    made.alloc(50 * MIB, PARAMETER)
    for _ in range(3):
        made.free(*forward(made, INFER))
    other = Program()
    other.alloc(50 * MIB, PARAMETER)
    for _ in range(3):
        freeing(other, INFER)
    lives = made.lives()
    found = unneeded(lives, (), told=True)
    assert found is not None
    assert not found.trained
    # All but the last two, which would be live even without a graph.
    assert found.saved_bytes == lives.peak_bytes - other.lives().peak_bytes == 10 * 8 * MIB
    assert unneeded(lives, (), told=False) is None


def test_saving_at_the_peak_is_the_same_for_an_event_as_for_the_recording() -> None:
    """The last two results would be live even without a graph."""
    made = Program()
    made.alloc(50 * MIB, PARAMETER)
    made.free(*forward(made, INFER))
    lives = made.lives()
    whole, at_peak = (unneeded(lives, (), told=True, at=at) for at in (None, lives.peak))
    assert whole is not None
    assert whole == at_peak
    assert whole.saved_bytes == 10 * 8 * MIB
    earlier = unneeded(lives, (), told=True, at=lives.peak - 4)
    assert earlier is not None
    assert (earlier.held_bytes, earlier.saved_bytes) == (8 * 8 * MIB, 6 * 8 * MIB)


def test_first_forward_pass_may_be_training() -> None:
    """A function in the pass frees all its results when it returns, but that isn't the end of the
    pass.
    """
    made = Program()
    kept = forward(made, INFER)
    made.free(*forward(made, INFER, 6, MIB // 4))
    kept += forward(made, INFER)
    failed = len(made.made.build()["device_traces"][0])
    made.made.oom(64 * MIB, device_free=0)
    made.free(*kept)
    made.alloc(MIB, INFER)
    found = unneeded(made.lives(), (failed,), told=True)
    assert found is not None
    assert not found.trained
    assert not found.ended


def test_inference_that_frees_its_activations_gets_no_advice() -> None:
    made = Program()
    for _ in range(3):
        freeing(made, INFER)
    assert unneeded(made.lives(), (), told=True) is None


def test_caching_two_of_ten_results_is_not_a_graph() -> None:
    made, cache = Program(), []
    for _ in range(12):
        freeing(made, INFER, 10)
        cache += [made.alloc(8 * MIB, INFER) for _ in range(2)]
    made.free(*cache)
    made.alloc(MIB, INFER)
    assert unneeded(made.lives(), (), told=True) is None


@pytest.mark.parametrize("batches", [1, 3])
def test_evaluation_that_keeps_a_graph_gets_advice(batches: int) -> None:
    made = Program()
    for _ in range(2):
        backward(made, forward(made, FORWARD, size=MIB))
        for _ in range(batches):
            made.free(*forward(made, EVALUATE))
    found = unneeded(made.lives(), (), told=True)
    assert found is not None
    assert found.trained
    assert found.saved_bytes > 60 * MIB


def test_training_is_not_evaluation() -> None:
    made = Program()
    for _ in range(3):
        backward(made, forward(made, FORWARD))
    assert unneeded(made.lives(), (), told=True) is None
    # The recording ends during a forward pass, as if an error had stopped the program.
    forward(made, FORWARD)
    assert unneeded(made.lives(), (), told=True) is None


def test_pass_ended_by_an_error_may_be_training() -> None:
    made = Program()
    backward(made, forward(made, FORWARD))
    kept = forward(made, FORWARD)
    failed = len(made.made.build()["device_traces"][0])
    made.made.oom(64 * MIB, device_free=0)
    made.free(*kept)
    made.alloc(MIB, FORWARD)
    assert unneeded(made.lives(), (failed,), told=True) is None


def test_only_trained_activations_are_kept_for_a_backward_pass() -> None:
    made = Program()
    backward(made, forward(made, FORWARD, 3))
    freeing(made, EVALUATE, 3)
    freeing(made, FORWARD, 3)  # nothing in the stack says that this is an evaluation
    forward(made, FORWARD, 3)  # the recording ends before its backward pass
    lives = made.lives()
    kept = kept_for_backward(lives, (), told=True)
    forwards = lives.of("category", "activations")
    assert kept[forwards].tolist() == [True] * 3 + [False] * 6 + [True] * 3


def test_failed_request_may_precede_the_backward_pass() -> None:
    made = Program()
    kept = forward(made, FORWARD, 3)
    failed = len(made.made.build()["device_traces"][0])
    made.made.oom(64 * MIB, device_free=0)
    made.free(*kept)
    lives = made.lives()
    assert kept_for_backward(lives, (failed,), told=True).tolist() == [True] * 3
    # Without the failed request, there was no backward pass, if the file would show it.
    assert not kept_for_backward(lives, (), told=True).any()
    assert kept_for_backward(lives, (), told=False).all()
