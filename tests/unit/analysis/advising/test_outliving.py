"""Tests of analysis/advising/outliving.py: forward passes whose autograd graphs stay alive while
other passes train.
"""

from __future__ import annotations

import pytest

from memreplay.analysis.advising.passes import unneeded
from tests.unit.analysis.advising.programs import (
    ACTIVATION,
    BACKWARD,
    EVALUATED,
    MIB,
    PARAMETER,
    TRAIN,
    Program,
    Stack,
)

LAYERS = 6
BATCH: Stack = [("randn", "/home/ana/data.py", 3), TRAIN]
TEACHER: Stack = [ACTIVATION[0], ("distill", "/home/ana/train.py", 60)]


def train(made: Program, beside: list[int] | None = None) -> None:
    """Run a training step whose backward pass also uses the activations that another pass kept."""
    batch = made.alloc(MIB, BATCH)
    kept = [made.alloc(4 * MIB, ACTIVATION) for _ in range(LAYERS)]
    loss = made.alloc(4, ACTIVATION)
    for result in reversed(kept + (beside or [])):
        gradient = made.alloc(4 * MIB, BACKWARD)
        if beside is None or result not in beside:
            made.free(result)
        made.free(gradient)
    made.free(batch, loss)


def evaluate(
    made: Program, *, layers: int = LAYERS, stack: Stack = EVALUATED, batches: bool = True
) -> list[int]:
    """Run a batch through layers that keep every second result, as an autograd graph does."""
    kept = [made.alloc(MIB, BATCH)] if batches else []
    for _ in range(layers):
        passing = made.alloc(4 * MIB, stack)
        kept.append(made.alloc(4 * MIB, stack))
        made.free(passing)
    return kept


def summed(epochs: int = 2, *, trained: bool = False, stack: Stack = EVALUATED) -> Program:
    """Run epochs whose evaluations sum losses; the sum is freed when the next evaluation starts."""
    made = Program()
    made.alloc(50 * MIB, PARAMETER)
    graph: list[int] = []
    for _ in range(epochs):
        for step in range(4):
            train(made, graph[:] if trained and not step else None)
        made.free(*graph)
        graph = []
        for _ in range(3):
            graph += [*evaluate(made, stack=stack), made.alloc(4, stack)]
    made.alloc(MIB, BATCH)
    return made


@pytest.mark.parametrize("epochs", [2, 3])
def test_summed_losses_keep_their_graphs(epochs: int) -> None:
    lives = summed(epochs).lives()
    found = unneeded(lives, (), told=True)
    assert found is not None
    assert found.trained
    graph = 3 * LAYERS * 4 * MIB
    # The graphs keep the batches alive, but batches aren't results.
    assert found.held_bytes == graph
    assert found.saved_bytes > 0.8 * graph


def test_graph_that_a_backward_pass_uses_is_needed() -> None:
    assert unneeded(summed(trained=True, stack=TEACHER).lives(), (), told=True) is None


def distilled(layers: int, *, used: bool = False) -> Program:
    """Record training steps with a teacher of this many layers. The teacher's graph is freed once
    the next step has built a new one.
    """
    made = Program()
    made.alloc(50 * MIB, PARAMETER)
    before: list[int] = []
    for _ in range(4):
        graph = evaluate(made, layers=layers, stack=TEACHER)
        made.free(*before)
        train(made, graph[1:] if used else None)
        before = graph
    made.free(*before)
    made.alloc(MIB, BATCH)
    return made


def test_teacher_that_no_backward_pass_uses_needs_no_graph() -> None:
    found = unneeded(distilled(16).lives(), (), told=True)
    assert found is not None
    assert found.trained
    # Two graphs exist while the next step's is being computed.
    assert found.saved_bytes > 14 * 4 * MIB
    assert unneeded(distilled(16, used=True).lives(), (), told=True) is None
    # If the teacher is no larger than the student, its gradients could be among the student's.
    assert unneeded(distilled(LAYERS).lives(), (), told=True) is None


def test_list_of_results_is_not_a_graph() -> None:
    """The layers compute one result per batch, and keep it during training."""
    for batches in (True, False):
        made = Program()
        train(made)
        kept: list[int] = []
        for _ in range(10):
            kept += evaluate(made, layers=1, batches=batches)
        for _ in range(3):
            train(made)
        made.free(*kept)
        made.alloc(MIB, BATCH)
        assert unneeded(made.lives(), (), told=True) is None


def test_gradients_may_flow_through_results_of_every_step() -> None:
    """For example, a program keeps an encoder's results until the next step computes new ones."""
    made = Program()
    before: list[int] = []
    for _ in range(4):
        results = [*evaluate(made, stack=TEACHER), made.alloc(4, TEACHER)]
        made.free(*before)
        train(made, results[1:-1])
        before = results
    made.free(*before)
    made.alloc(MIB, BATCH)
    assert unneeded(made.lives(), (), told=True) is None
