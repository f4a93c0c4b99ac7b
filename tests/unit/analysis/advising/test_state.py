"""Tests of analysis/advising/state.py: what an optimizer's first step still allocates."""

from __future__ import annotations

import pytest

from memreplay.analysis.advising.state import state_left
from memreplay.snapshot.model import Frame
from tests.unit.analysis.advising.programs import (
    BACKWARD,
    FOREACH,
    FORWARD,
    INIT,
    INIT_SECOND,
    MIB,
    Program,
    Stack,
)

PARAMETERS = 10  # of 8 MiB each


def frames(stack: Stack) -> list[Frame]:
    return [Frame(function, file, line) for function, file, line in stack]


def training(of: int, *, fused: bool = False) -> Program:
    """The first step until the states of so many parameters have been made."""
    made = Program()
    activation = made.alloc(8 * MIB, FORWARD)
    for _ in range(PARAMETERS):
        made.alloc(8 * MIB, BACKWARD)
    made.free(activation)
    for _ in range(of):
        if fused:
            made.alloc(4, INIT)
        made.alloc(8 * MIB, INIT)
        made.alloc(8 * MIB, INIT_SECOND)
    return made


@pytest.mark.parametrize("of", [0, 1, 4, 10])
@pytest.mark.parametrize("fused", [False, True])
def test_two_states_of_each_and_temporaries(of: int, fused: bool) -> None:
    if fused and not of:
        return  # nothing tells
    lives = training(of, fused=fused).lives()
    left = state_left(lives, frames(INIT), lives.events)
    assert left == (2 * (PARAMETERS - of) + (0 if fused else PARAMETERS)) * 8 * MIB


def test_temporaries_that_are_there_count() -> None:
    made = training(PARAMETERS)
    for _ in range(3):
        made.alloc(8 * MIB, FOREACH)
    lives = made.lives()
    assert state_left(lives, frames(FOREACH), lives.events) == 7 * 8 * MIB


def test_other_steps_and_other_code() -> None:
    made = training(PARAMETERS)
    lives = made.lives()
    assert state_left(lives, frames(FORWARD), lives.events) == 0
    for _ in range(2):
        made.free(made.alloc(8 * MIB, BACKWARD))
    lives = made.lives()
    assert state_left(lives, frames(INIT), lives.events) == 0  # its second step
