"""Buffers that a module's `.to()` or `.cuda()` moved: told from parameters by a line of PyTorch.

`Module._apply` calls itself for the modules below, then moves parameters, their gradients, and
buffers, each at a line of its own. Lines differ between versions of PyTorch, but not how far they
are from the line of the call. From there to the line of the

- parameters it is 23 lines in PyTorch 1.13 to 2.2, 25 to 33 since,
- gradients 37, and 63 to 78,
- buffers 47, and 84 to 103.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.snapshot.code import Code

_FILE = "/torch/nn/modules/module.py"
_NAME = "_apply"
_BUFFERS = (range(42, 60), range(82, 121))
MOST = 10_000
"""Stacks in which the call is looked for. Models are moved early, so one of the first has it."""


def buffer_frames(code: Code) -> list[int]:
    """The frames in which buffers are moved. None if no stack shows the call: of a model without
    modules in it nothing is claimed."""
    found = _apply_frames(code)
    if len(found) < 2:
        return []
    call = _line_of_call(code, found)
    if call is None:
        return []
    return [frame for frame, line in found.items() if any(line - call in one for one in _BUFFERS)]


def _apply_frames(code: Code) -> dict[int, int]:
    """The line of each frame of `Module._apply`."""
    strings = {}
    for kind, ids in zip((_FILE, _NAME), code.names(), strict=True):
        strings[kind] = {i for i in ids if code.string(i).replace("\\", "/").endswith(kind)}
    if not all(strings.values()):
        return {}
    found = {}
    for i in range(code.frames):
        function, file, line = code.frame(i)
        if function in strings[_NAME] and file in strings[_FILE]:
            found[i] = line
    return found


def _line_of_call(code: Code, frames: dict[int, int]) -> int | None:
    """The line at which `_apply` calls itself, in a stack that has it twice in a row."""
    for stack in range(min(code.stacks, MOST)):
        ids = code.stack(stack)
        for inner, outer in pairwise(ids):
            if inner in frames and outer in frames:
                return frames[outer]
    return None
