"""What of a snapshot is looked at: a record, and how it changes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Filters
from memreplay.snapshot.model import By, MeasureName

View = Literal["tree", "groups", "list", "segments", "change"]
VIEWS: tuple[View, ...] = ("tree", "groups", "list", "segments", "change")
Axis = Literal["event", "time"]
CLOSEST = 16  # events that a window has at least, if there are as many


class Look(Struct, frozen=True):
    """What is looked at. Events are those of the whole trace."""

    device: int
    event: int
    """Where the cursor is: what is shown is so after this event."""
    first: int
    """The first event of the window that the curve shows …"""
    last: int
    """… and the last."""
    measure: MeasureName = "requested"
    view: View = "tree"
    by: By = "stack"
    axis: Axis = "event"
    inverted: bool = False
    """Whether trees begin with what allocates."""
    whole: bool = False
    """Whether frames that are not the user's are shown."""
    begin: int | None = None
    """Where a range begins, and ends."""
    end: int | None = None
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        """The range, in order; None where an end of it is not given."""
        if self.begin is None or self.end is None or self.begin == self.end:
            return None
        return min(self.begin, self.end), max(self.begin, self.end)


def moved(look: Look, event: int, low: int, high: int) -> Look:
    """With the cursor at an event, or at the nearest of those from `low` to `high`; the window
    follows it."""
    event = min(max(event, low), high)
    wide = look.last - look.first
    first = look.first
    if event < first:
        first = event
    elif event > look.last:
        first = event - wide
    return replace(look, event=event, first=first, last=first + wide)


def zoomed(look: Look, by: float, low: int, high: int) -> Look:
    """With `by` times the events in the window, about the cursor, which stays where it is."""
    wide = look.last - look.first
    wanted = min(max(round(wide * by), min(CLOSEST, high - low)), high - low)
    part = (look.event - look.first) / wide if wide else 0.5
    return shown(look, look.event - round(wanted * part), wanted, low, high)


def panned(look: Look, by: float, low: int, high: int) -> Look:
    """With the window moved by a part of it; the cursor goes with it."""
    wide = look.last - look.first
    step = round(wide * by) or (1 if by > 0 else -1)
    found = shown(look, look.first + step, wide, low, high)
    return replace(found, event=min(max(look.event + step, low), high))


def shown(look: Look, first: int, wide: int, low: int, high: int) -> Look:
    """With the window of `wide` events from `first` on, as far as there are any."""
    first = max(min(first, high - wide), low)
    return replace(look, first=first, last=min(first + wide, high))
