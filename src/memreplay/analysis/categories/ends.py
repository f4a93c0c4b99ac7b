"""Determine, for category rules, which allocations are freed in the same optimizer step that made
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.code.patterns import regexes
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.code import Code
    from memreplay.snapshot.replay import Replay

# The text that a rule's `ends` is matched against, for each name from `passing_keys`.
IN_STEP = "in the optimizer's step"
ENDS: tuple[str | None, ...] = (None, IN_STEP, None)
# Functions through which an optimizer step calls back into user code.
_PROGRAM = regexes((1, r"(?:^|\.)(?:forward|backward|closure)\Z"))


def marks_of(code: Code, optimizer: bytes) -> bytes:
    """Return each frame's flags for `keys_by_end`. `optimizer`: a byte per frame, nonzero for
    frames of an optimizer step.
    """
    found: bytes = code.classified.get(("ends", optimizer), lambda: _marks(code, optimizer))
    return found


def _marks(code: Code, optimizer: bytes) -> bytes:
    lowest = _PROGRAM.of_names(code.native, True)
    return bytes(
        _groups.OF_OPTIMIZER if step else 0 if lowest[function] else _groups.OF_PROGRAM
        for step, function in zip(optimizer, code.functions(), strict=True)
    )


def keys_by_end(replay: Replay, marks: bytes) -> Keys:
    """Group allocations by their index in ENDS."""
    if any(mark & _groups.OF_OPTIMIZER for mark in marks):
        return _groups.passing_keys(replay.native, marks)
    found = _groups.row_keys(replay.native, 0, 0)
    found.find_all()
    return found
