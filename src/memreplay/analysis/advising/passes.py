"""Forward passes that no backward pass follows, and that keep what one would need all the same."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.analysis.advising.forms import BACKWARD
from memreplay.analysis.advising.lives import EVALUATES
from memreplay.analysis.advising.outliving import outliving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memreplay.analysis.advising.lives import Lives

# Without a graph a result goes when the one after the next has been made of it.
NEXT = 2
# Of what a pass made it keeps at least this part, in at least so many allocations: a KV cache keeps
# two of the ten or more results of a layer.
KEPT_SHARE, KEPT_COUNT = 0.4, 6
ALIKE_SHARE = 0.9  # of a pass that was cut off, of code that ran before


class Unneeded(NamedTuple):
    """What passes without a backward pass keep for one."""

    held_bytes: int
    """What they hold at the peak."""
    saved_bytes: int
    """By how much the peak falls without."""
    stack: int | None
    """The stack that holds most of it, by its number."""
    trained: bool
    """Whether other passes are followed by a backward pass."""
    ended: bool
    """Whether a pass of them was seen to its end."""


def unneeded(
    lives: Lives, failed: Sequence[int], *, told: bool, at: int | None = None
) -> Unneeded | None:
    """Find the passes that keep results for no backward pass; None if there are none, or nothing
    tells.

    `failed` are the events of requests that failed: what goes then was cut off by the error. `told`
    is whether the file would show a backward pass: the recorder noted what allocations are for, or
    all of them have stacks. What they hold is that at the peak, or after the event `at`.
    """
    code = lives.code()
    backward = lives.of("category", *BACKWARD)
    trained = bool(backward.any())
    if not told and not trained:
        return None
    forward = lives.forward()
    backwards = lives.start[backward]
    followed = np.searchsorted(backwards, lives.end) > np.searchsorted(backwards, lives.start)
    made = np.searchsorted(lives.start, lives.end)  # how many were made before its end
    old = forward & ~followed & (lives.age() > NEXT)
    kept = outliving(lives, forward, backward)
    sums = np.concatenate([[0], np.cumsum(np.where(forward, lives.bytes, 0))])
    order = np.flatnonzero(old)
    order = order[np.argsort(made[order], kind="stable")]
    ended = bool(kept.any())
    bounds = np.append(np.flatnonzero(np.diff(made[order], prepend=-1)), len(order))
    cut: list[NDArray[np.int64]] = []
    # Most are of a few allocations: a long recording has tens of thousands of these.
    for i in np.flatnonzero(np.diff(bounds) >= KEPT_COUNT):
        some = order[bounds[i] : bounds[i + 1]]
        rows = np.sort(some)
        first = rows[np.searchsorted(np.cumsum(lives.bytes[rows]), lives.bytes[rows].sum() // 20)]
        whole = int(sums[made[some[0]]] - sums[first])
        if lives.bytes[some].sum() < KEPT_SHARE * whole:
            continue
        # What nothing was allocated after, or an error unwound, may have had a backward pass.
        next_one = made[some[0]]
        if next_one == len(lives) or _between(
            failed, lives.start[next_one - 1], lives.start[next_one]
        ):
            cut.append(some)
        else:
            kept[some] = ended = True
    known = np.isin(lives.stack, np.unique(lives.stack[kept])) | ((code & EVALUATES) > 0)
    for some in cut:
        # Where others of the same code had none, this one would not have had one either.
        alike = lives.bytes[some][known[some]].sum()
        if not trained or alike >= ALIKE_SHARE * lives.bytes[some].sum():
            kept[some] = True
    if not kept.any():
        return None
    after = np.append(lives.start, lives.events)
    row = np.minimum(np.arange(len(lives)) + NEXT, len(lives))
    return Unneeded(
        lives.held(kept, at),
        lives.saved(kept, after=after[row]),
        lives.largest_stack(kept),
        trained,
        ended,
    )


def _between(events: Sequence[int], first: int, last: int) -> bool:
    """Whether any event lies between two others."""
    return bisect_left(events, last) > bisect_left(events, first)
