"""Check from allocations whether an optimizer's marks are the program's steps."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from memreplay import _core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.steps.records import Doubt
    from memreplay.snapshot.model import Span
    from memreplay.snapshot.replay import Replay

# Fewer marks aren't enough to establish a pattern.
LEAST_MARKS = 8
# With fewer allocations than this between two marks, assume that the optimizer runs in hooks during
# the backward pass.
LEAST_WORK = 8
# At least this share of the marks must follow the same number of allocations.
REGULAR = 0.75
ALIKE = 0.9
# Maximum number of optimizers for similar networks. If more optimizer steps than that create state,
# the state is created layer by layer.
MOST_ALIKE = 3
# The allocations between two marks are one step's work if their number is below this multiple of
# the usual number.
TWICE = 1.9


def doubt(replay: Replay, marks: Sequence[Span]) -> Doubt | None:
    """Return why the optimizer's marks may be more or fewer than the program's steps."""
    marks = [
        one for one in marks if one.end_event is not None and one.end_event > replay.first_event
    ]
    marks.sort(key=lambda one: one.start_us)
    if len(marks) < LEAST_MARKS:
        return None
    made = (replay.vector("action", "B") == _core.ACTIONS.index("alloc")).rows()
    edges = [edge for one in marks for edge in (one.start_event, one.end_event or 0)]
    at = made.places([edge + 1 - replay.first_event for edge in edges])
    starts, ends = at[::2], at[1::2]
    work, inside = (starts[1:] - ends[:-1]).tolist(), (ends - starts).tolist()
    if _several(work, inside):
        return "several_optimizers"
    sizes = bytes(replay.vector("size", "q")[made])
    return "left_out" if _left_out(sizes, starts.tolist(), ends.tolist()) else None


def _several(work: Sequence[int], inside: Sequence[int]) -> bool:
    """Return whether two optimizers seem to share the name of their marks."""
    usual, count = Counter(work).most_common(1)[0]
    if usual < LEAST_WORK or count < REGULAR * len(work):
        return False
    own = Counter(inside).most_common(1)[0][0]
    more = [one for one in inside if one > own]
    if count >= ALIKE * len(work) and 1 < len(more) <= MOST_ALIKE and len(set(more)) == 1:
        # Each optimizer creates its state in one step; the work before that step is as usual.
        return True
    # An optimizer that steps only now and then has an unusual number of allocations both before and
    # within its step.
    pairs = list(zip(work, inside[1:], strict=True))[len(work) // 8 :]
    odd = Counter(pair for pair in pairs if pair[0] != usual and pair[1] != own)
    if not odd:
        return False
    seldom, times = odd.most_common(1)[0]
    apart = all(a != seldom or b != seldom for a, b in pairwise(pairs))
    return times > 1 and apart and pairs.count((usual, own)) + times >= ALIKE * len(pairs)


def _left_out(sizes: bytes, starts: Sequence[int], ends: Sequence[int]) -> bool:
    """Return whether a step's work occurs at least twice before some mark. This happens if a
    GradScaler skips optimizer steps, which then leave no mark.
    """
    regions = [sizes[8 * a : 8 * b] for a, b in zip(ends, starts[1:], strict=False)]
    pattern, count = Counter(regions).most_common(1)[0]
    if len(pattern) < 8 * LEAST_WORK or 2 * count < len(regions):
        return False
    before = [sizes[: 8 * starts[0]], *regions]
    return any(one.count(pattern) > 1 for one in before if len(one) >= TWICE * len(pattern))
