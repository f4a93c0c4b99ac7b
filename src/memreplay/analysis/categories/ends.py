"""Where allocations end, as far as rules ask for it: in the optimizer's step that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay

# What a rule's `ends` is searched in: of each name of `passing_keys`.
IN_STEP = "in the optimizer's step"
ENDS: tuple[str | None, ...] = (None, IN_STEP)


def keys_by_end(replay: Replay, marks: bytes) -> Keys:
    """Groups under the numbers of ENDS; `marks` says of each frame if it's of an optimizer's step,
    a byte each."""
    if any(marks):
        return _groups.passing_keys(replay.native, marks)
    found = _groups.row_keys(replay.native, 0, 0)
    found.meet()
    return found
