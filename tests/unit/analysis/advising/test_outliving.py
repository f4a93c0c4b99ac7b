"""Tests of analysis/advising/outliving.py: passes whose graphs stay while others train."""

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
    """A step; its backward pass goes through what a pass beside it kept, too."""
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
    """A batch through layers that keep one of two results, as a graph needs them."""
    kept = [made.alloc(MIB, BATCH)] if batches else []
    for _ in range(layers):
        passing = made.alloc(4 * MIB, stack)
        kept.append(made.alloc(4 * MIB, stack))
        made.free(passing)
    return kept


def summed(epochs: int = 2, *, trained: bool = False, stack: Stack = EVALUATED) -> Program:
    """Epochs whose evaluations add up losses; the sum goes when the next one begins."""
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
def test_losses_that_add_up_keep_their_graphs(epochs: int) -> None:
    lives = summed(epochs).lives()
    found = unneeded(lives, (), told=True)
    assert found is not None
    assert found.trained
    graph = 3 * LAYERS * 4 * MIB
    # The batches stay with the graphs, and are no results.
    assert found.held_bytes == graph
    assert found.saved_bytes > 0.8 * graph


def test_a_graph_that_a_backward_pass_goes_through_is_needed() -> None:
    assert unneeded(summed(trained=True, stack=TEACHER).lives(), (), told=True) is None


def test_a_list_of_results_is_no_graph() -> None:
    """Layers of which each batch keeps one result: computed once, and kept while others train."""
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


def test_results_of_every_step_may_be_trained() -> None:
    """A list of an encoder's results, which stay until the next step has its own."""
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
