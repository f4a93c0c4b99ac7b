"""Where allocations end, as far as rules ask for it: in the optimizer's step that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.code import Code
    from memreplay.snapshot.replay import Replay

# What a rule's `ends` is searched in: of each name of `passing_keys`.
IN_STEP = "in the optimizer's step"
ENDS: tuple[str | None, ...] = (None, IN_STEP, None)
# Functions in which the program is at work again, where an optimizer's step has called them.
PROGRAM = frozenset({"forward", "backward", "closure"})


def marks_of(code: Code, optimizer: bytes) -> bytes:
    """Of each frame the bits that `keys_by_end` needs; `optimizer` says if it's of a step, a byte
    each."""
    program = {i for i in code.names()[1] if code.string(i).rpartition(".")[2] in PROGRAM}
    return bytes(
        _groups.OF_OPTIMIZER if step else _groups.OF_PROGRAM if function in program else 0
        for step, function in zip(optimizer, code.functions(), strict=True)
    )


def keys_by_end(replay: Replay, marks: bytes) -> Keys:
    """Groups under the numbers of ENDS."""
    if any(mark & _groups.OF_OPTIMIZER for mark in marks):
        return _groups.passing_keys(replay.native, marks)
    found = _groups.row_keys(replay.native, 0, 0)
    found.meet()
    return found
