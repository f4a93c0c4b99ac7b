"""Find forward passes that keep results for a backward pass although no backward pass follows."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.analysis.advising.forms import BACKWARD
from memreplay.analysis.advising.lives import EVALUATES
from memreplay.analysis.advising.outliving import outliving
from memreplay.engine.query._vectors import chosen, constant, counting, joined, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.advising.lives import Lives, Place
    from memreplay.engine.query._vectors import Vector

# Without an autograd graph, a result is freed as soon as two further results have been computed.
NEXT = 2
# A pass is reported if it keeps at least this share and at least this number of its results. A KV
# cache keeps only two of a layer's ten or more results.
KEPT_SHARE, KEPT_COUNT = 0.4, 6
# A function's results are also freed at once when it returns. Compared with a whole pass, they're
# small.
FUNCTION_SHARE = 0.05
ALIKE_SHARE = 0.9  # minimum share of an interrupted pass's code that must also be in earlier passes


class Unneeded(Struct, frozen=True):
    """Results kept for a backward pass that never comes."""

    held_bytes: int
    """Bytes that these results hold at the peak, or after the given event."""
    saved_bytes: int
    """How far the peak falls without a backward pass to keep them for, or how many bytes are free
    after the given event. The latest results would be live anyway.
    """
    place: Place | None
    """The line that holds most of these bytes."""
    trained: bool
    """Whether other passes have a backward pass."""
    ended: bool
    """Whether any of these passes ran to its end."""


def unneeded(
    lives: Lives, failed: Sequence[int], *, told: bool, at: int | None = None
) -> Unneeded | None:
    """Find what `kept_in_vain` holds at the peak, or after the event `at`. Return None if there's
    nothing.
    """
    found = kept_in_vain(lives, failed, told=told)
    if found is None:
        return None
    kept, freed = found.kept, found.freed
    return Unneeded(
        lives.held(kept, at),
        lives.saved(kept, after=freed) if at is None else lives.held(kept & (freed <= at), at),
        lives.largest_place(kept),
        found.trained,
        found.ended,
    )


class InVain(Struct, frozen=True):
    """Rows kept for a backward pass that never comes."""

    kept: Vector
    freed: Vector
    """The event at which each row would be freed without a graph."""
    trained: bool
    ended: bool


def kept_in_vain(lives: Lives, failed: Sequence[int], *, told: bool) -> InVain | None:
    """Find passes that keep results without a backward pass. Return None if there are no such
    passes, or if the file doesn't show whether there are any.

    `failed`: events of failed requests, because frees right after one are caused by the error.
    `told`: whether the file would show a backward pass, either because of the recorder used or
    because all allocations have stacks.
    """
    backward = lives.of("category", *BACKWARD)
    trained = backward.any()
    if not told and not trained:
        return None
    kept, ended = _kept(lives, backward, failed)
    if not kept.any():
        return None
    after = joined([lives.start, [lives.events]])
    freed = after[(counting(len(lives)) + NEXT).lower(len(lives))]
    return InVain(kept, freed, trained, ended)


def _kept(lives: Lives, backward: Vector, failed: Sequence[int]) -> tuple[Vector, bool]:
    """Return which rows are results kept without a backward pass, and whether any of their passes
    ran to its end.
    """
    trained = backward.any()
    forward = lives.forward()
    backwards = lives.start[backward]
    followed = backwards.places(lives.end) > backwards.places(lives.start)
    made = lives.start.places(lives.end)  # number of rows allocated before each row's end
    old = forward & ~followed & (lives.age() > NEXT)
    kept = outliving(lives, forward, backward)
    sums = joined([[0], chosen(forward, lives.bytes, 0).sums()])
    order = old.rows()
    order = order[made[order].order()]
    outlived = kept.any()
    ends = made[order]
    bounds = joined([ends - joined([[-1], ends])[:-1], [1]]).rows()
    cut: list[Vector] = []
    most = most_ended = 0
    # Most passes have few allocations, and a long recording can have tens of thousands of passes.
    for i in (bounds[1:] - bounds[:-1] >= KEPT_COUNT).rows():
        some = order[bounds[i] : bounds[i + 1]]
        rows = some.sorted()
        held = lives.bytes[rows].sum()
        first = rows[lives.bytes[rows].sums().places([held // 20])[0]]
        whole = sums[made[some[0]]] - sums[first]
        if held < KEPT_SHARE * whole:
            continue
        most = max(most, held)
        # There may be no backward pass only because the file ends or an error occurred.
        next_one = made[some[0]]
        if next_one == len(lives) or _between(
            failed, lives.start[next_one - 1], lives.start[next_one]
        ):
            cut.append(some)
        else:
            kept[some] = True
            most_ended = max(most_ended, held)
    known = lives.stack.is_in(lives.stack[kept]) | ((lives.code() & EVALUATES) > 0)
    for some in cut:
        # If earlier passes through the same code had no backward pass, this pass wouldn't have had
        # one either.
        alike = lives.bytes[some][known[some]].sum()
        if not trained or alike >= ALIKE_SHARE * lives.bytes[some].sum():
            kept[some] = True
    return kept, outlived or most_ended > FUNCTION_SHARE * most


def kept_for_backward(lives: Lives, failed: Sequence[int], *, told: bool) -> Vector:
    """Return which rows may be kept for a backward pass: a backward pass allocates while they're
    live, or the file or a failed request ends before it could.

    `failed` and `told` as for `unneeded`. If the file wouldn't show a backward pass, all rows may
    be kept for one.
    """
    backwards = lives.start[lives.of("category", *BACKWARD)]
    if not told and not len(backwards):
        return constant(1, len(lives), "?")
    events = vector(failed)
    followed = backwards.places(lives.end) > backwards.places(lives.start)
    cut = events.places(lives.end) > events.places(lives.start)
    cut |= lives.end == lives.events
    return followed | (cut & ((lives.code() & EVALUATES) == 0))


def _between(events: Sequence[int], first: int, last: int) -> bool:
    """Return whether an event is strictly between two others."""
    return bisect_left(events, last) > bisect_left(events, first)
