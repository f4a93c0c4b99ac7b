"""The current view of a snapshot, an immutable record."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Filters
from memreplay.snapshot.model import By, MeasureName

View = Literal["tree", "groups", "list", "segments", "change"]
VIEWS: tuple[View, ...] = ("tree", "groups", "list", "segments", "change")
Axis = Literal["event", "time"]
CLOSEST_HEIGHT = 12  # the smallest height of a curve is the peak divided by 2 to this power
CLOSEST = 16  # minimum number of events in a window


class Look(Struct, frozen=True):
    """The current view. Event numbers count from the start of the trace."""

    device: int
    event: int
    """The cursor: the view shows the state after this event."""
    first: int
    """First event of the curve's window."""
    last: int
    """Last event of the curve's window."""
    measure: MeasureName = "requested"
    view: View = "tree"
    by: By = "stack"
    axis: Axis = "event"
    inverted: bool = False
    """Whether trees start at the innermost frame."""
    whole: bool = False
    """Whether frames outside the user's code are shown."""
    lens: tuple[int, int] | None = None
    """The bytes at the curve's lower and upper edge; None for 0 and the peak."""
    begin: int | None = None
    """Ends of the range, if set."""
    end: int | None = None
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        """The range in order; None if an end isn't set."""
        if self.begin is None or self.end is None or self.begin == self.end:
            return None
        return min(self.begin, self.end), max(self.begin, self.end)


def counted(look: Look) -> tuple[object, ...]:
    """Return the parts of a view that determine which allocations count, and how they count."""
    return look.device, look.measure, look.pool, look.stream, look.filters


def moved(look: Look, event: int, low: int, high: int) -> Look:
    """Move the cursor to an event, clamped to `low` and `high`; the window follows."""
    event = min(max(event, low), high)
    wide = look.last - look.first
    first = look.first
    if event < first:
        first = event
    elif event > look.last:
        first = event - wide
    return replace(look, event=event, first=first, last=first + wide)


def zoomed(look: Look, by: float, low: int, high: int) -> Look:
    """Scale the window by `by`. The cursor keeps its position in the window."""
    wide = look.last - look.first
    wanted = min(max(round(wide * by), min(CLOSEST, high - low)), high - low)
    part = (look.event - look.first) / wide if wide else 0.5
    return shown(look, look.event - round(wanted * part), wanted, low, high)


def panned(look: Look, by: float, low: int, high: int) -> Look:
    """Move the window by a share of its width; the cursor moves along."""
    wide = look.last - look.first
    step = round(wide * by) or (1 if by > 0 else -1)
    found = shown(look, look.first + step, wide, low, high)
    return replace(found, event=min(max(look.event + step, low), high))


def heightened(look: Look, by: float, peak: int, held: int) -> Look:
    """Scale the curve's height by `by`. The cursor's bytes keep their position."""
    low, high = look.lens or (0, peak)
    tall = max(round((high - low) * by), peak >> CLOSEST_HEIGHT, 1)
    if tall >= peak:
        return replace(look, lens=None)
    part = min(max((held - low) / max(high - low, 1), 0.0), 1.0)
    return _between(look, held - round(tall * part), tall, peak)


def lifted(look: Look, by: float, peak: int) -> Look:
    """Move the curve's lower and upper edge by a share of its height."""
    if look.lens is None:
        return look
    low, high = look.lens
    return _between(
        look, low + (round((high - low) * by) or (1 if by > 0 else -1)), high - low, peak
    )


def _between(look: Look, low: int, tall: int, peak: int) -> Look:
    low = max(min(low, peak - tall), 0)
    return replace(look, lens=(low, low + tall))


def shown(look: Look, first: int, wide: int, low: int, high: int) -> Look:
    """Show a window of `wide` events that starts at `first`, clamped to the trace."""
    first = max(min(first, high - wide), low)
    return replace(look, first=first, last=min(first + wide, high))
