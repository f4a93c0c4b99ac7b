"""Distinguish buffers from parameters that a module's `.to()` or `.cuda()` moved, by PyTorch's line
numbers.

`Module._apply` calls itself for submodules, then moves parameters, gradients and buffers, each on
its own line. Lines differ between versions of PyTorch, but the distance from the line of the
recursive call hardly differs:

- for parameters, 23 lines in PyTorch 1.13 to 2.2, and 25 to 33 since,
- for gradients, 37 and then 63 to 78,
- for buffers, 47 and then 84 to 103.
"""

from __future__ import annotations

from itertools import compress, pairwise
from typing import TYPE_CHECKING

from memreplay.analysis.code.patterns import regexes

if TYPE_CHECKING:
    from memreplay.snapshot.code import Code

_APPLY = regexes((1, r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py:.*_apply\Z"))
_BUFFERS = (range(42, 60), range(82, 121))
MOST = 10_000
"""Stacks searched for the call. Models are moved early, so one of the first has it."""


def buffer_frames(code: Code) -> list[int]:
    """Return the frames in which buffers are moved. Empty if no stack shows the recursive call, as
    for a model without submodules.
    """
    found = _apply_frames(code)
    if len(found) < 2:
        return []
    call = _line_of_call(code, found)
    if call is None:
        return []
    return [frame for frame, line in found.items() if any(line - call in one for one in _BUFFERS)]


def _apply_frames(code: Code) -> dict[int, int]:
    """Return the line number of each frame of `Module._apply`."""
    found = memoryview(_APPLY.of_frames(code.native))
    return {i: code.frame(i)[2] for i in compress(range(code.frames), found)}


def _line_of_call(code: Code, frames: dict[int, int]) -> int | None:
    """Return the line where `_apply` calls itself, taken from a stack with two consecutive `_apply`
    frames.
    """
    for stack in range(min(code.stacks, MOST)):
        ids = code.stack(stack)
        for inner, outer in pairwise(ids):
            if inner in frames and outer in frames:
                return frames[outer]
    return None
