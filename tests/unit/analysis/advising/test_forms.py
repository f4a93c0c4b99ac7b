"""Tests of analysis/advising/forms.py: code that has a cheaper alternative, and the memory that
this saves.
"""

from __future__ import annotations

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
    """Run layers that each keep a 4 MiB input, 64 MiB of scores and their softmax. Return the kept
    blocks.
    """
    kept = []
    for _ in range(layers):
        kept += [made.alloc(4 * MIB, LINEAR), made.alloc(64 * MIB, FORWARD)]
        kept.append(made.alloc(64 * MIB, SOFTMAX))
    return kept


def test_attention_scores_and_their_softmax_can_be_saved() -> None:
    made = Program()
    kept = attention(made, 3)
    kept.append(made.alloc(64 * MIB, LINEAR))  # not attention, despite its size
    gradient = made.alloc(64 * MIB, BACKWARD)
    made.free(*kept, gradient)
    found = forms.attention_scores(made.lives())
    assert found.held_bytes == found.saved_bytes == 7 * 64 * MIB
    # No line of the program allocated the gradient.
    assert found.place is not None
    assert found.place.bytes == 6 * 64 * MIB


def test_attention_is_found_without_a_softmax_frame() -> None:
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


def test_computing_the_loss_in_chunks_saves_seven_eighths() -> None:
    made = Program()
    first = made.alloc(80 * MIB, FORWARD)  # the same size, but allocated much earlier
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
def test_loss_that_is_already_chunked_gets_no_advice(between: int, saves: bool) -> None:
    """Forty allocations between two losses show that a model ran in between. These aren't chunks of
    one loss, but batches whose gradients accumulate.
    """
    made = Program()
    for _ in range(8):
        kept = [made.alloc(80 * MIB, LINEAR), made.alloc(80 * MIB, LOSS)]
        others = [made.alloc(MIB, FORWARD) for _ in range(between)]
        made.free(*kept, *others)
    assert bool(forms.loss(made.lives()).saved_bytes) == saves


def test_disabling_foreach_saves_its_temporaries() -> None:
    made = Program()
    state = made.alloc(40 * MIB, INIT)
    within = made.alloc(30 * MIB, FOREACH)  # state that the kernel creates and keeps
    temporary = [made.alloc(10 * MIB, FOREACH) for _ in range(4)]
    made.free(*temporary)
    activation = made.alloc(15 * MIB, FORWARD)
    made.free(activation)
    found = forms.foreach(made.lives())
    assert found.held_bytes == 40 * MIB
    assert found.saved_bytes == 25 * MIB  # without foreach, the peak is in the forward pass
    assert {state, within} <= set(made.live)


def steps(*, stale: bool, workspace: int = 0) -> tuple[Program, list[int]]:
    """Record three steps of a model whose gradients are kept (`stale`) or freed before the next
    forward pass. The first backward pass allocates a workspace and keeps it.
    """
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
                made.free(made.alloc(5 * MIB, BACKWARD))  # added to the existing gradient
                made.free(activation)
    return made, starts


def test_freeing_gradients_before_the_forward_pass_lowers_the_peak() -> None:
    made, starts = steps(stale=True)
    found = forms.stale_gradients(made.lives(), starts)
    other, _ = steps(stale=False)
    lower = made.lives().peak_bytes - other.lives().peak_bytes
    assert found.saved_bytes == lower == 30 * MIB
    assert found.held_bytes == 30 * MIB
    assert forms.stale_gradients(made.lives(), []).saved_bytes == 0
    other, starts = steps(stale=False)
    assert forms.stale_gradients(other.lives(), starts).saved_bytes == 0


@pytest.mark.parametrize("size", [5 * MIB, 32 * MIB])
@pytest.mark.parametrize("stale", [False, True])
def test_workspace_is_not_a_gradient(size: int, stale: bool) -> None:
    """The workspace is as large as a gradient, and also allocated in the backward pass."""
    made, starts = steps(stale=stale, workspace=size)
    found = forms.stale_gradients(made.lives(), starts)
    assert found.held_bytes == found.saved_bytes == (30 * MIB if stale else 0)


def test_backward_temporaries_are_not_gradients() -> None:
    """If a guessed step boundary falls inside a backward pass, temporaries are live across it."""
    made = Program()
    made.alloc(5 * MIB, PARAMETER)
    starts = []
    for _ in range(3):
        activation = made.alloc(16 * MIB, ACTIVATION)
        temporaries = [made.alloc(12 * MIB, BACKWARD) for _ in range(4)]
        gradient = made.alloc(5 * MIB, BACKWARD)
        starts.append(len(made.made.build()["device_traces"][0]))
        again = made.alloc(16 * MIB, ACTIVATION)  # recomputed
        more = [made.alloc(12 * MIB, BACKWARD) for _ in range(4)]
        made.free(*temporaries, activation, again, *more, gradient)
    found = forms.stale_gradients(made.lives(), starts)
    assert found.held_bytes <= 5 * MIB
