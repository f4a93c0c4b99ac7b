"""What an optimizer allocates for parameters that begin to be trained, told from leaks.

PyTorch's optimizers make the state of a parameter once. If there is more of it later, parameters
were unfrozen or added, and it stops when all are trained. Their gradients appear at the same steps.
Where the parameters themselves leak, they show as leaks, and so does their state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memreplay.analysis.code.late import Late
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.snapshot.model import Frame

    Row = tuple[Any, ...]

# Columns of _growth.groups_grown.
NAME, RATE, STAYED, WARM, END, RISES, UNTIL, ODDS, GAINED = 0, 1, 2, 4, 5, 7, 8, 13, 14
WHOLE = 6
"""The rate of all memory, among the totals."""
# Parameters have at least this part of the bytes of their state: Adam keeps two tensors of each.
LEAST_PART = 0.25
MOST_GRADIENTS = 1.05  # of the state's bytes
# State of one tensor for each parameter, the gradients, and a tenth of that for all else.
STATE_AND_GRADIENTS = 2.2
_STATE = Late(
    r"/torch/optim/\w{1,64}\.py:(?:\w{1,64}\.)?"
    r"(?:_init_group|_(?:single|multi)_tensor_\w{1,64}|_fused_\w{1,64})$"
)
_BACKWARD = Late(r"torch::autograd::|/torch/autograd/|/torch/_tensor\.py:backward$")


def is_state(frames: Sequence[Frame]) -> bool:
    """Whether one of PyTorch's optimizers makes a parameter's state in this stack."""
    return any(_STATE.search(_text(frame)) for frame in frames)


def newly_trained(rows: Sequence[Row], frames_of: Callable[[int], Sequence[Frame]]) -> list[Row]:
    """Those of the leaks that are state or gradients of newly trained parameters."""
    found = [row for row in rows if is_state(frames_of(row[NAME]))]
    if not found:
        return []
    state = sum(row[GAINED] for row in found)
    # A gradient for each parameter, at the same steps: no more than the state.
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
    """What optimizers made of state after the warm-up, in bytes."""
    later = (row for row in rows if row[UNTIL] > warm and row[END] > row[WARM])
    return sum(row[END] - row[WARM] for row in later if is_state(frames_of(row[NAME])))


def _is_backward(row: Row, frames_of: Callable[[int], Sequence[Frame]]) -> bool:
    if row[NAME] == _groups.NO_STACK:
        return True
    return any(_BACKWARD.search(_text(frame)) for frame in frames_of(row[NAME]))


def _text(frame: Frame) -> str:
    return f"{frame.file}:{frame.function}"
