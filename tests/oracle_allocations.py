"""Sum up a recording's allocations with slow, simple code: the oracle for `allocations`.

It applies one rule after another to lists of lifetimes from tests/oracle.py and
tests/oracle_measures.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from tests import oracle, oracle_measures


@dataclass
class Life:
    """An allocation in the trace: its event, the event that frees it (or None), its bytes and its
    group.
    """

    alloc: int
    end: int | None
    size: int
    key: Any = None


@dataclass
class Sums:
    """Sums over some allocations."""

    count: int
    bytes: int
    mean_bytes: int | None
    temporary_count: int
    temporary_bytes: int
    live_count: int
    live_bytes: int
    mean_lifetime_events: int | None
    mean_lifetime_us: int | None


def lives(snapshot: Any, device: int, measure: str) -> list[Life]:
    """Return a trace's allocations, measured by "requested" or "held", keyed by event."""
    events = oracle.trace_of(snapshot, device)
    if measure == "requested":
        ends = {
            one.alloc_index: one.free_index for one in oracle.replay(snapshot, device).lifetimes
        }
    else:
        held = oracle_measures.holdings_of(snapshot, device)
        ends = {one.alloc_index: one.end_index for one in held}
    return [
        Life(index, ends[index], event.get("size", 0), event)
        for index, event in enumerate(events)
        if event.get("action") == "alloc"
    ]


def clock(events: list[Any]) -> list[int | None]:
    """Return the latest time up to each event, or None before the first."""
    latest: int | None = None
    found = []
    for event in events:
        time = event.get("time_us")
        if time is not None and (latest is None or time > latest):
            latest = time
        found.append(latest)
    return found


def lifetime_us(one: Life, times: list[int | None]) -> int | None:
    """Return the time from an alloc to its free; None if it wasn't freed or the time is unknown."""
    if one.end is None:
        return None
    begin, end = times[one.alloc], times[one.end]
    return None if begin is None or end is None else end - begin


def is_temporary(one: Life, events: list[Any], threshold: int) -> bool:
    """Return whether an allocation was freed before more than `threshold` others were made on the
    device.
    """
    if one.end is None:
        return False
    between = events[one.alloc + 1 : one.end]
    others = [event for event in between if event.get("action") == "alloc"]
    return len(others) <= threshold


def summed(some: list[Life], events: list[Any], threshold: int) -> Sums:
    """Return all sums over these allocations."""
    times = clock(events)
    temporary = [one for one in some if is_temporary(one, events, threshold)]
    live = [one for one in some if one.end is None]
    lasted = [one.end - one.alloc for one in some if one.end is not None]
    us = [known for one in some if (known := lifetime_us(one, times)) is not None]
    return Sums(
        count=len(some),
        bytes=sum(one.size for one in some),
        mean_bytes=mean([one.size for one in some]),
        temporary_count=len(temporary),
        temporary_bytes=sum(one.size for one in temporary),
        live_count=len(live),
        live_bytes=sum(one.size for one in live),
        mean_lifetime_events=mean(lasted),
        mean_lifetime_us=mean(us),
    )


def mean(values: list[int]) -> int | None:
    """Return the mean, rounding half up."""
    return floor(Fraction(sum(values), len(values)) + Fraction(1, 2)) if values else None


def in_classes(values: list[tuple[int, int]], base: int) -> list[tuple[int, int, int, int]]:
    """Return (least, most, count, bytes) for each class of (value, bytes) pairs."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for value, n_bytes in values:
        least, most = 0, 0
        while value > most:
            least, most = most + 1, (most + 1) * base - 1
        count, whole = found.get((least, most), (0, 0))
        found[least, most] = (count + 1, whole + n_bytes)
    return [(*ends, *sums) for ends, sums in sorted(found.items())]


def median(values: list[int]) -> int | None:
    """Return the smallest value that at least half of the values don't exceed."""
    for value in sorted(values):
        if 2 * sum(other <= value for other in values) >= len(values):
            return value
    return None


def needed_segments(some: list[Life], events: list[Any]) -> int:
    """Return how many allocations have a segment event between the previous allocation and their
    own.
    """
    found = 0
    for one in some:
        for event in reversed(events[: one.alloc]):
            if event.get("action") == "alloc":
                break
            if event.get("action") in ("segment_alloc", "segment_map"):
                found += 1
                break
    return found
