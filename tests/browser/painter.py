"""Paints the stacked picture slowly and obviously: what the page's picture is held against.

Allocations are those of memreplay's Python interface, not those of the page's columns. Plain
Python, whole numbers and fractions; one column of pixels after the other.
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
"""The moment of a column in which there is none."""


class Life(NamedTuple):
    """An allocation: live at moments [begin, end), where moment m is after m events."""

    id: int
    begin: int
    end: int
    bytes: int


@dataclass(frozen=True)
class Recording:
    """The allocations of a device by one measure, in the order in which they were made, and how
    many events there are."""

    lives: Sequence[Life]
    events: int
    times: Sequence[int] | None
    """Microseconds of each event since the first, never falling; None without times."""


@dataclass(frozen=True)
class View:
    """What part is seen, and how large: [start, stop) along the axis, bytes [low, high)."""

    axis: str
    start: float
    stop: float
    low: float
    high: float
    width: int
    height: int


def recording(snap: mr.Snapshot, device: int, measure: MeasureName) -> Recording:
    """What memreplay says of a device."""
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
    """Of allocations, by event and address, the numbers that they are called by: first what was
    there before the first event, then in order of the events."""
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
        # A clock that is set back stands still.
        found.append(max(at or 0, *found[-1:], 0))
    return [one - found[0] for one in found]


def usage(of: Recording) -> list[int]:
    """Bytes at each moment."""
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
    """The moments in each column of pixels; edges are numbers as browsers have them.

    On the axis of events moment m is at m; where none begins in a column it is the one that lasts.
    On that of time it lasts from the event that made it to the next one, the first from 0 on, the
    last for no time: in a column are all that begin before its right edge, and do not end before
    its left one.
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
    """Who is seen in each pixel, by row from the top; and the moment that each column shows."""
    at = usage(of)
    least = [_least(view, row) for row in range(view.height)]
    rows = [[NOBODY] * view.width for _ in range(view.height)]
    shown = []
    for x, moments in enumerate(columns(of, view)):
        if not moments:
            shown.append(NOTHING)
            continue
        moment = max(moments, key=lambda one: (at[one], -one))  # the first of the highest
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
    """How many bytes have to lie upon each other, so that the one in the middle of a row (counted
    from the bottom) is among them: whole bytes, and none is cut."""
    pixel = (Fraction(view.high) - Fraction(view.low)) / view.height
    return floor(Fraction(view.low) + (row + Fraction(1, 2)) * pixel) + 1


def channels(colour: int) -> tuple[int, int, int]:
    """Red, green and blue of 0xRRGGBB."""
    return colour >> 16, colour >> 8 & 255, colour & 255


@dataclass(frozen=True)
class Colouring:
    """What colours allocations have: by their group, faded where they do not stand out."""

    group: Callable[[int], int]
    stands_out: Callable[[int], bool]
    own: dict[int, int]
    others: Sequence[int]
    background: int

    def of(self, owner: int) -> tuple[int, int, int]:
        """The colour of a pixel that shows an allocation, or nobody."""
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
    """Of each pixel its colour. Two of one colour upon each other are told apart: the lowest pixel
    of the upper one is darker, where that is three pixels high at least."""
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
    """The pixels of an allocation that something else is beside, or the edge of the picture."""
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
