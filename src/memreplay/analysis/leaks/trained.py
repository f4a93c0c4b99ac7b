"""Distinguish an optimizer's state for newly trained parameters from leaks.

PyTorch's optimizers create a parameter's state once. Later growth means that parameters were
unfrozen or added, and stops once all are trained. The gradients of these parameters appear in the
same steps. If parameters themselves leak, both they and their state are reported as leaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memreplay.analysis.code.patterns import regexes
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.snapshot.model import Frame

    Row = tuple[Any, ...]

# Columns of _growth.groups_grown's result.
NAME, RATE, STAYED, WARM, END, RISES, UNTIL, ODDS, GAINED = 0, 1, 2, 4, 5, 7, 8, 13, 14
WHOLE = 6
"""The rate of all memory, among the totals."""
# Parameters are at least this large relative to their optimizer state, because Adam keeps two
# tensors per parameter.
LEAST_PART = 0.25
MOST_GRADIENTS = 1.05  # as a share of the optimizer state's bytes
# One gradient per state tensor of a parameter, plus 10% for everything else.
STATE_AND_GRADIENTS = 2.2
_OF_STATE, _OF_BACKWARD = 1, 2
_FRAMES = regexes(
    (
        _OF_STATE,
        (
            r"/torch/optim/\w{1,64}\.py:(?:\w{1,64}\.)?"
            r"(?:_init_group|_(?:single|multi)_tensor_\w{1,64}|_fused_\w{1,64})$"
        ),
    ),
    (_OF_BACKWARD, r"torch::autograd::|/torch/autograd/|/torch/_tensor\.py:backward$"),
)


def is_state(frames: Sequence[Frame]) -> bool:
    """Return whether this stack is in a PyTorch optimizer that creates a parameter's state."""
    return any(_FRAMES.search(_text(frame)) & _OF_STATE for frame in frames)


def newly_trained(rows: Sequence[Row], frames_of: Callable[[int], Sequence[Frame]]) -> list[Row]:
    """Return the leaks that are state or gradients of newly trained parameters."""
    found = [row for row in rows if is_state(frames_of(row[NAME]))]
    if not found:
        return []
    state = sum(row[GAINED] for row in found)
    # There is one gradient per parameter, in the same steps as the state, so gradients are at most
    # as large as the state.
    gradients = [
        row
        for row in rows
        if row not in found
        and any(abs(row[RISES] - one[RISES]) <= 1 for one in found)
        and _is_backward(row, frames_of)
    ]
    if sum(row[GAINED] for row in gradients) <= MOST_GRADIENTS * state:
        found += gradients
    others = sum(row[GAINED] for row in rows if row not in found)
    return [] if others >= LEAST_PART * state else [row for row in rows if row in found]


def late_state(rows: Sequence[Row], frames_of: Callable[[int], Sequence[Frame]], warm: int) -> int:
    """Return the bytes of state that optimizers created after the warm-up."""
    later = (row for row in rows if row[UNTIL] > warm and row[END] > row[WARM])
    return sum(row[END] - row[WARM] for row in later if is_state(frames_of(row[NAME])))


def _is_backward(row: Row, frames_of: Callable[[int], Sequence[Frame]]) -> bool:
    if row[NAME] == _groups.NO_STACK:
        return True
    return any(_FRAMES.search(_text(frame)) & _OF_BACKWARD for frame in frames_of(row[NAME]))


def _text(frame: Frame) -> str:
    return f"{frame.file}:{frame.function}"
