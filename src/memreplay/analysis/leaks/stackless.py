"""Classify growth without stacks: optimizer steps allocate state, and other code may leak.

PyTorch marks each optimizer step, with or without stacks. A leak of the training loop is outside
these marks. The state of newly trained parameters is allocated inside the marks. If the gradients
of these parameters are kept, they're allocated outside the marks, but in the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.leaks.trained import END, GAINED, MOST_GRADIENTS, NAME, RISES, WARM
from memreplay.analysis.steps.boundaries import OPTIMIZER_STEP
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

    Row = tuple[Any, ...]

IN_OPTIMIZER_STEP = "(without a stack, in Optimizer.step)"
# Group numbers.
OUTSIDE, INSIDE, CARRIED = range(3)


def stackless_keys(snap: Snapshot, usage: Usage) -> Keys | None:
    """Return which allocations were made in optimizer steps; None if there are stacks, or if
    nothing marks the steps.
    """
    replay = usage.replay
    if replay.tally.with_stack:
        return None
    runs = [(0, OUTSIDE)]
    for span in spans(snap, replay):
        if span.end_event is None or span.name.partition("#")[0] != OPTIMIZER_STEP:
            continue
        first = max(span.start_event + 1 - replay.first_event, runs[-1][0])
        stop = span.end_event + 1 - replay.first_event
        if first < stop:
            runs += [(first, INSIDE), (stop, OUTSIDE)]
    if len(runs) == 1:
        return None
    return _groups.run_keys(replay.native, runs, CARRIED)


def stackless_group(grouper: Grouper, usage: Usage, name: int) -> Group:
    """Return the group with this number, for display."""
    group = grouper.group(usage, grouper.stack_name(0, carried=name == CARRIED), 0, 0, 0)
    return replace(group, label=IN_OPTIMIZER_STEP) if name == INSIDE else group


def state_inside(leaks: Sequence[Row], once: Sequence[Row]) -> int:
    """Return the bytes that optimizer steps allocated after the warm-up and that are still live."""
    return sum(max(0, row[END] - row[WARM]) for row in (*leaks, *once) if row[NAME] == INSIDE)


def leak_outside(leaks: Sequence[Row], once: Sequence[Row]) -> bool:
    """Return whether growth outside optimizer steps is more than gradients. Gradients of newly
    trained parameters are allocated in the same steps as the state, and aren't larger than the
    state.
    """
    state = [row for row in (*leaks, *once) if row[NAME] == INSIDE]
    outside = [row for row in leaks if row[NAME] != INSIDE]
    if not outside:
        return False
    if sum(row[GAINED] for row in outside) > MOST_GRADIENTS * state_inside(leaks, once):
        return True
    return any(all(abs(row[RISES] - one[RISES]) > 1 for one in state) for row in outside)
