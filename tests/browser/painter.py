"""Paints the stacked picture slowly and obviously: what the page's picture is held against.

Allocations are those of memreplay's Python interface, not those of the page's columns. Plain
Python, whole numbers and fractions; one column of pixels after the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import memreplay as mr
from memreplay.snapshot.model import MeasureName

NOBODY = -1


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
    """The moments in each column of pixels: those that begin in it and, where none does, the one
    that lasts."""
    edges = [
        Fraction(view.start) + (Fraction(view.stop) - Fraction(view.start)) * i / view.width
        for i in range(view.width + 1)
    ]
    found = []
    for left, right in pairwise(edges):
        if view.axis == "event":
            start, stop = left.__floor__(), right.__floor__()
        else:
            assert of.times is not None
            start, stop = bisect_right(of.times, left), bisect_right(of.times, right)
        found.append(range(start, min(max(stop, start + 1), of.events + 1)))
    return found


def paint(of: Recording, view: View) -> tuple[list[list[int]], list[int]]:
    """Who is seen in each pixel, by row from the top; and the moment that each column shows."""
    at = usage(of)
    least = [_least(view, row) for row in range(view.height)]
    rows = [[NOBODY] * view.width for _ in range(view.height)]
    shown = []
    for x, moments in enumerate(columns(of, view)):
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
    return (Fraction(view.low) + (row + Fraction(1, 2)) * pixel).__floor__() + 1
