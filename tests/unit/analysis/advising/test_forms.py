"""Tests of analysis/advising/forms.py: what code with a cheaper form holds, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest

from memreplay.analysis.advising import forms
from tests.unit.analysis.advising.programs import (
    ACTIVATION,
    BACKWARD,
    FOREACH,
    FORWARD,
    INIT,
    LINEAR,
    LOSS,
    MIB,
    PARAMETER,
    SOFTMAX,
    Program,
)


def attention(made: Program, layers: int) -> list[int]:
    """Layers that keep scores of 64 MiB and their softmax, of inputs of 4 MiB."""
    kept = []
    for _ in range(layers):
        kept += [made.alloc(4 * MIB, LINEAR), made.alloc(64 * MIB, FORWARD)]
        kept.append(made.alloc(64 * MIB, SOFTMAX))
    return kept


def test_attention_scores() -> None:
    made = Program()
    kept = attention(made, 3)
    kept.append(made.alloc(64 * MIB, LINEAR))  # of that size by chance
    gradient = made.alloc(64 * MIB, BACKWARD)
    made.free(*kept, gradient)
    found = forms.attention_scores(made.lives())
    assert found.held_bytes == found.saved_bytes == 7 * 64 * MIB
    assert found.stack is not None


def test_attention_without_a_frame_of_softmax() -> None:
    made = Program()
    where = [("forward", "/home/ana/attention.py", 3), ("train", "/home/ana/train.py", 1)]
    linear = [LINEAR[0], *where]
    for _ in range(2):
        made.alloc(4 * MIB, linear)
        made.alloc(64 * MIB, where)
    assert forms.attention_scores(made.lives()).saved_bytes == 2 * 64 * MIB
    small = Program()
    small.alloc(64 * MIB, linear)
    small.alloc(4 * MIB, where)
    assert forms.attention_scores(small.lives()).saved_bytes == 0


def test_the_loss_over_chunks() -> None:
    made = Program()
    first = made.alloc(80 * MIB, FORWARD)  # of that size, and long before
    others = [made.alloc(MIB, FORWARD) for _ in range(10)]
    kept = [
        made.alloc(80 * MIB, LINEAR),
        made.alloc(80 * MIB, LOSS),
        made.alloc(80 * MIB, BACKWARD),
    ]
    made.free(*kept, first, *others)
    found = forms.loss(made.lives())
    assert found.held_bytes == 3 * 80 * MIB
    assert found.saved_bytes == 7 * 3 * 80 * MIB // 8


@pytest.mark.parametrize("between, saves", [(3, False), (40, True)])
def test_a_loss_that_is_computed_over_chunks_has_no_cheaper_form(between: int, saves: bool) -> None:
    """Forty allocations between two losses are a model's: batches whose gradients add up."""
    made = Program()
    for _ in range(8):
        kept = [made.alloc(80 * MIB, LINEAR), made.alloc(80 * MIB, LOSS)]
        others = [made.alloc(MIB, FORWARD) for _ in range(between)]
        made.free(*kept, *others)
    assert bool(forms.loss(made.lives()).saved_bytes) == saves


def test_what_an_optimizer_computes_for_all_at_once() -> None:
    made = Program()
    state = made.alloc(40 * MIB, INIT)
    within = made.alloc(30 * MIB, FOREACH)  # a state that the kernel makes: it stays
    temporary = [made.alloc(10 * MIB, FOREACH) for _ in range(4)]
    made.free(*temporary)
    activation = made.alloc(15 * MIB, FORWARD)
    made.free(activation)
    found = forms.foreach(made.lives())
    assert found.held_bytes == 40 * MIB
    assert found.saved_bytes == 25 * MIB  # then the forward pass is the peak
    assert {state, within} <= set(made.live)


def steps(*, stale: bool, workspace: int = 0) -> tuple[Program, list[int]]:
    """Three steps of a model, whose gradients stay, or go before the next forward pass; the first
    backward pass makes a workspace, which stays."""
    made = Program()
    for _ in range(6):
        made.alloc(5 * MIB, PARAMETER)
    starts: list[int] = []
    gradients: list[int] = []
    for step in range(3):
        if step:
            starts.append(len(made.made.build()["device_traces"][0]))
        if not stale:
            made.free(*gradients)
            gradients = []
        activations = [made.alloc(16 * MIB, ACTIVATION) for _ in range(6)]
        if workspace and not step:
            made.alloc(workspace, BACKWARD)
        if not gradients:
            for activation in reversed(activations):
                gradients.append(made.alloc(5 * MIB, BACKWARD))
                made.free(activation)
        else:
            for activation in reversed(activations):
                made.free(made.alloc(5 * MIB, BACKWARD))  # added to the gradient that is there
                made.free(activation)
    return made, starts


def test_gradients_of_the_step_before() -> None:
    made, starts = steps(stale=True)
    found = forms.stale_gradients(made.lives(), np.array(starts, np.int64))
    other, _ = steps(stale=False)
    lower = made.lives().peak_bytes - other.lives().peak_bytes
    assert found.saved_bytes == lower == 30 * MIB
    assert found.held_bytes == 30 * MIB
    assert forms.stale_gradients(made.lives(), np.zeros(0, np.int64)).saved_bytes == 0
    other, starts = steps(stale=False)
    assert forms.stale_gradients(other.lives(), np.array(starts, np.int64)).saved_bytes == 0


@pytest.mark.parametrize("size", [5 * MIB, 32 * MIB])
@pytest.mark.parametrize("stale", [False, True])
def test_a_workspace_is_no_gradient(size: int, stale: bool) -> None:
    """Even if it is as large as one, and made in the backward pass, too."""
    made, starts = steps(stale=stale, workspace=size)
    found = forms.stale_gradients(made.lives(), np.array(starts, np.int64))
    assert found.held_bytes == found.saved_bytes == (30 * MIB if stale else 0)


def test_temporaries_of_a_backward_pass_are_no_gradients() -> None:
    """A guessed boundary lies in a backward pass, as some temporaries do."""
    made = Program()
    made.alloc(5 * MIB, PARAMETER)
    starts = []
    for _ in range(3):
        activation = made.alloc(16 * MIB, ACTIVATION)
        temporaries = [made.alloc(12 * MIB, BACKWARD) for _ in range(4)]
        gradient = made.alloc(5 * MIB, BACKWARD)
        starts.append(len(made.made.build()["device_traces"][0]))
        again = made.alloc(16 * MIB, ACTIVATION)  # computed again
        more = [made.alloc(12 * MIB, BACKWARD) for _ in range(4)]
        made.free(*temporaries, activation, again, *more, gradient)
    found = forms.stale_gradients(made.lives(), np.array(starts, np.int64))
    assert found.held_bytes <= 5 * MIB
