"""Tests of analysis/advising/state.py: the memory that an optimizer's first step has yet to
allocate.
"""

from __future__ import annotations

import pytest

from memreplay.analysis.advising.state import remaining_state_bytes
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

PARAMETERS = 10  # number of parameters, 8 MiB each


def frames(stack: Stack) -> list[Frame]:
    return [Frame(function, file, line) for function, file, line in stack]


def training(of: int, *, fused: bool = False) -> Program:
    """Record the optimizer's first step up to the point where this many parameters have state."""
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
def test_remaining_bytes_include_states_and_temporaries(of: int, fused: bool) -> None:
    if fused and not of:
        return  # nothing shows it
    lives = training(of, fused=fused).lives()
    left = remaining_state_bytes(lives, frames(INIT), lives.events)
    assert left == (2 * (PARAMETERS - of) + (0 if fused else PARAMETERS)) * 8 * MIB


def test_states_are_counted_by_python_lines() -> None:
    made = training(0)
    for i in range(4):
        for init in (INIT, INIT_SECOND):
            made.alloc(8 * MIB, [("??", "libtorch_python.so", 100 + i), *init])
    lives = made.lives()
    left = remaining_state_bytes(lives, frames(INIT), lives.events)
    assert left == (2 * (PARAMETERS - 4) + PARAMETERS) * 8 * MIB


def test_live_temporaries_are_not_counted_again() -> None:
    made = training(PARAMETERS)
    for _ in range(3):
        made.alloc(8 * MIB, FOREACH)
    lives = made.lives()
    assert remaining_state_bytes(lives, frames(FOREACH), lives.events) == 7 * 8 * MIB


def test_nothing_remains_to_be_allocated_outside_the_first_step() -> None:
    made = training(PARAMETERS)
    lives = made.lives()
    assert remaining_state_bytes(lives, frames(FORWARD), lives.events) == 0
    for _ in range(2):
        made.free(made.alloc(8 * MIB, BACKWARD))
    lives = made.lives()
    assert remaining_state_bytes(lives, frames(INIT), lives.events) == 0  # its second step
