"""Paint the stacked picture slowly, as a simple reference for the page's own painter.

Allocations come from memreplay's Python interface, not from the page's columns. It uses plain
Python, integers and fractions, one column of pixels at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import NamedTuple

import memreplay as mr
from memreplay.snapshot.model import MeasureName

NOBODY = -1
NOTHING = -1
"""The moment of an empty column."""


class Life(NamedTuple):
    """An allocation: live at moments [begin, end), where moment m is after m events."""

    id: int
    begin: int
    end: int
    bytes: int


@dataclass(frozen=True)
class Recording:
    """A device's allocations, in order, for one measure, and its number of events."""

    lives: Sequence[Life]
    events: int
    times: Sequence[int] | None
    """Microseconds of each event since the first, never decreasing; None without times."""


@dataclass(frozen=True)
class View:
    """The visible part and its size: [start, stop) along the axis, bytes [low, high)."""

    axis: str
    start: float
    stop: float
    low: float
    high: float
    width: int
    height: int


def recording(snap: mr.Snapshot, device: int, measure: MeasureName) -> Recording:
    """Read a device using memreplay's Python interface."""
    replay = snap.replay(device)
    numbers = _numbers(replay)
    found = replay.measure(measure).lifetimes
    first, last = replay.first_event, replay.events
    lives = []
    for made, freed, address, size in zip(
        found.alloc_event.tolist(),
        found.free_event.tolist(),
        found.address.tolist(),
        found.size.tolist(),
        strict=True,
    ):
        begin = 0 if made < first else made - first + 1
        end = last + 1 if freed < 0 else freed - first + 1
        lives.append(Life(numbers[made, address].pop(0), begin, end, size))
    return Recording(sorted(lives), last, _times(replay))


def _numbers(replay: mr.Replay) -> dict[tuple[int, int], list[int]]:
    """Return allocation numbers by event and address: carried-over allocations first, then in event
    order.
    """
    found = replay.lifetimes
    keys = list(zip(found.alloc_event.tolist(), found.address.tolist(), strict=True))
    carried = [key for key in keys if key[0] < replay.first_event]
    made = [key for key in keys if key[0] >= replay.first_event]
    numbers = defaultdict(list)
    for number, key in enumerate([*carried, *made]):
        numbers[key].append(number)
    return numbers


def _times(replay: mr.Replay) -> list[int] | None:
    found: list[int] = []
    for event in range(replay.first_event, replay.first_event + replay.events):
        at = replay.time_us(event)
        if at is None and not found:
            return None
        # If the clock was set back, repeat the latest time so far.
        found.append(max(at or 0, *found[-1:], 0))
    return [one - found[0] for one in found]


def usage(of: Recording) -> list[int]:
    """Return the bytes in use at each moment."""
    changes = [0] * (of.events + 2)
    for one in of.lives:
        if one.begin < one.end:
            changes[one.begin] += one.bytes
            changes[one.end] -= one.bytes
    found, now = [], 0
    for change in changes[:-1]:
        now += change
        found.append(now)
    return found


def columns(of: Recording, view: View) -> list[range]:
    """Return the moments in each pixel column; edges are floats, as in browsers.

    On the event axis, moment m is at m; a column in which no moment starts shows the current one.
    On the time axis, a moment lasts from its event to the next one; the first starts at 0, and the
    last has no duration. A column covers all moments that start before its right edge and don't end
    before its left edge.
    """
    step = (view.stop - view.start) / view.width
    found = []
    for i in range(view.width):
        left, right = view.start + i * step, view.start + (i + 1) * step
        if view.axis == "event":
            start, stop = floor(left), max(floor(right), floor(left) + 1)
        else:
            assert of.times is not None
            begins, ends = [0, *of.times], [*of.times, of.times[-1]]
            start, stop = bisect_left(ends, left), bisect_left(begins, right)
        found.append(range(max(start, 0), min(stop, of.events + 1)))
    return found


def paint(of: Recording, view: View) -> tuple[list[list[int]], list[int]]:
    """Return each pixel's owner, by row from the top, and the moment that each column shows."""
    at = usage(of)
    least = [_least(view, row) for row in range(view.height)]
    rows = [[NOBODY] * view.width for _ in range(view.height)]
    shown = []
    for x, moments in enumerate(columns(of, view)):
        if not moments:
            shown.append(NOTHING)
            continue
        # The first if several are equally high.
        moment = max(moments, key=lambda one: (at[one], -one))
        shown.append(moment)
        top = row = 0
        for one in of.lives:
            if not one.begin <= moment < one.end:
                continue
            top += one.bytes
            while row < view.height and top >= least[row]:
                rows[view.height - 1 - row][x] = one.id
                row += 1
    return rows, shown


def _least(view: View, row: int) -> int:
    """Return how many whole bytes must be stacked from the bottom to cover the middle of a row."""
    pixel = (Fraction(view.high) - Fraction(view.low)) / view.height
    return floor(Fraction(view.low) + (row + Fraction(1, 2)) * pixel) + 1


def channels(colour: int) -> tuple[int, int, int]:
    """Split 0xRRGGBB into red, green and blue."""
    return colour >> 16, colour >> 8 & 255, colour & 255


@dataclass(frozen=True)
class Colouring:
    """The allocations' colours: by group, faded if not highlighted."""

    group: Callable[[int], int]
    stands_out: Callable[[int], bool]
    own: dict[int, int]
    others: Sequence[int]
    background: int

    def of(self, owner: int) -> tuple[int, int, int]:
        """Return a pixel's colour, given the allocation it shows, if any."""
        if owner == NOBODY:
            return channels(self.background)
        group = self.group(owner)
        red, green, blue = channels(self.own.get(group, self.others[group % len(self.others)]))
        if self.stands_out(owner):
            return red, green, blue
        back = channels(self.background)
        pairs = zip((red, green, blue), back, strict=True)
        r, g, b = ((one + 3 * ground + 2) // 4 for one, ground in pairs)
        return r, g, b


def colours(rows: Sequence[Sequence[int]], by: Colouring) -> list[list[tuple[int, int, int]]]:
    """Return each pixel's colour. To separate adjacent allocations of the same colour, the lowest
    pixel of the upper one is darker if it is at least three pixels high.
    """
    found = [[by.of(owner) for owner in row] for row in rows]
    for x in range(len(rows[0])):
        run = 0
        for y, row in enumerate(rows):
            run = run + 1 if y and row[x] == rows[y - 1][x] else 1
            below = rows[y + 1][x] if y + 1 < len(rows) else row[x]
            if run < 3 or NOBODY in (row[x], below) or below == row[x]:
                continue
            if by.of(row[x]) == by.of(below):
                r, g, b = ((4 * one + 2) // 5 for one in by.of(row[x]))
                found[y][x] = (r, g, b)
    return found


def edges(rows: Sequence[Sequence[int]], owner: int) -> list[list[bool]]:
    """Mark an allocation's pixels that are on its border or at the edge of the picture."""
    height, width = len(rows), len(rows[0])

    def inside(x: int, y: int) -> bool:
        return 0 <= x < width and 0 <= y < height and rows[y][x] == owner

    return [
        [
            inside(x, y)
            and not (
                inside(x - 1, y) and inside(x + 1, y) and inside(x, y - 1) and inside(x, y + 1)
            )
            for x in range(width)
        ]
        for y in range(height)
    ]
