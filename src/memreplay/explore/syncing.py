"""Find the same moment in another snapshot: by step, time or event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look

Sync = Literal["step", "time", "event"]
SYNCS: tuple[Sync, ...] = ("step", "time", "event")


def syncs(first: Explored, one: Look, second: Explored, other: Look) -> tuple[Sync, ...]:
    """Return the ways that both snapshots support: steps, times, and (always) events."""
    found: list[Sync] = []
    if first.steps(one).pieces and second.steps(other).pieces:
        found.append("step")
    if all(
        explored.replay(look).time_range is not None and explored.replay(look).clock is not None
        for explored, look in ((first, one), (second, other))
    ):
        found.append("time")
    return (*found, "event")


class Side(NamedTuple):
    """A snapshot and its current view."""

    explored: Explored
    look: Look


def same_moment(mine: Side, event: int, theirs: Side, sync: Sync) -> int:
    """Return the event in `theirs` that corresponds to `event` in `mine`."""
    (first, one), (second, other) = mine, theirs
    low, high = second.bounds(other.device)
    found = event
    if sync == "step":
        found = _by_step(first, one, event, second, other)
    elif sync == "time":
        ours, others = first.replay(one), second.replay(other)
        now, begun = ours.clock_us(event), ours.time_range
        there = others.time_range
        assert begun is not None
        assert there is not None
        found = low
        if event >= ours.first_event and now is not None:
            found = others.event_at(there[0] + now - begun[0])
    return min(max(found, low), high)


def _by_step(first: Explored, one: Look, event: int, second: Explored, other: Look) -> int:
    """Find the same relative position in the same step.

    Before the first step and after the last one, keep the distance in events.
    """
    mine, theirs = first.steps(one).pieces, second.steps(other).pieces
    base, there = first.replay(one).first_event, second.replay(other).first_event
    row = event - base
    number = next((i for i, piece in enumerate(mine) if row < piece.stop), len(mine))
    if number == len(mine):
        return theirs[-1].stop + (row - mine[-1].stop) + there
    piece = mine[number]
    if row < piece.first:
        return theirs[min(number, len(theirs) - 1)].first - (piece.first - row) + there
    if number >= len(theirs):
        return theirs[-1].stop - 1 + there
    same = theirs[number]
    part = (row - piece.first) / max(piece.stop - piece.first - 1, 1)
    return same.first + round(part * (same.stop - same.first - 1)) + there
