"""Tests of analysis/advising/passes.py: passes that keep results for no backward pass."""

from __future__ import annotations

import pytest

from memreplay.analysis.advising.passes import unneeded
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
    """A pass that lets each result go when the next has been made."""
    before = None
    for _ in range(layers):
        block = made.alloc(8 * MIB, stack)
        if before is not None:
            made.free(before)
        before = block
    assert before is not None
    made.free(before)


def test_inference_that_keeps_all() -> None:
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
    # All but the last two, which are there without a graph, too.
    assert found.saved_bytes == lives.peak_bytes - other.lives().peak_bytes == 10 * 8 * MIB
    assert unneeded(lives, (), told=False) is None


def test_inference_that_frees_is_left_alone() -> None:
    made = Program()
    for _ in range(3):
        freeing(made, INFER)
    assert unneeded(made.lives(), (), told=True) is None


def test_a_cache_of_two_results_in_ten_is_no_graph() -> None:
    made, cache = Program(), []
    for _ in range(12):
        freeing(made, INFER, 10)
        cache += [made.alloc(8 * MIB, INFER) for _ in range(2)]
    made.free(*cache)
    made.alloc(MIB, INFER)
    assert unneeded(made.lives(), (), told=True) is None


@pytest.mark.parametrize("batches", [1, 3])
def test_an_evaluation_with_a_graph(batches: int) -> None:
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
    # The recording ends in a forward pass, as after an error.
    forward(made, FORWARD)
    assert unneeded(made.lives(), (), told=True) is None


def test_a_pass_that_an_error_unwinds_may_have_been_training() -> None:
    made = Program()
    backward(made, forward(made, FORWARD))
    kept = forward(made, FORWARD)
    failed = len(made.made.build()["device_traces"][0])
    made.made.oom(64 * MIB, device_free=0)
    made.free(*kept)
    made.alloc(MIB, FORWARD)
    assert unneeded(made.lives(), (failed,), told=True) is None
