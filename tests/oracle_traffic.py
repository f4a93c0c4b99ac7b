"""Compute allocations and frees between two events with slow, simple code that scans all
allocations for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from tests import oracle, oracle_measures


class Life(NamedTuple):
    """An allocation from its alloc event (-1: carried over) to the event that frees it (None: never
    freed).
    """

    begin: int
    end: int | None
    size: int
    key: Hashable


class Sums(NamedTuple):
    """A group's bytes and number of allocations."""

    before_bytes: int = 0
    before: int = 0
    came_bytes: int = 0
    came: int = 0
    went_bytes: int = 0
    went: int = 0
    after_bytes: int = 0
    after: int = 0


def lives(
    snapshot: Any, device: int, measure: str, key: Callable[[oracle.Lifetime], Hashable]
) -> list[Life]:
    """Return a device's allocations, measured by "requested" or "held"."""
    lifetimes = oracle.replay(snapshot, device).lifetimes
    if measure == "requested":
        return [Life(one.alloc_index, one.free_index, one.size, key(one)) for one in lifetimes]
    held = {
        (one.alloc_index, one.addr): one for one in oracle_measures.holdings_of(snapshot, device)
    }
    found = []
    for one in lifetimes:
        holding = held.get((one.alloc_index, one.addr))
        if holding is not None:
            found.append(Life(one.alloc_index, holding.end_index, one.size, key(one)))
    return found


def traffic(some: list[Life], begin: int, end: int) -> dict[Hashable, Sums]:
    """Return for each group the live bytes after `begin` (-1: the start), the bytes that later
    events up to `end` allocate and free, and the live bytes after `end`.
    """
    found: dict[Hashable, Sums] = {}

    def add(life: Life, what: str) -> None:
        was = found.get(life.key, Sums())
        found[life.key] = was._replace(
            **{
                what: getattr(was, what) + 1,
                f"{what}_bytes": getattr(was, f"{what}_bytes") + life.size,
            }
        )

    def live(event: int) -> list[Life]:
        return [one for one in some if one.begin <= event and (one.end is None or one.end > event)]

    for one in live(begin):
        add(one, "before")
    for event in range(begin + 1, end + 1):
        for one in some:
            if one.begin == event:
                add(one, "came")
            if one.end == event:
                add(one, "went")
    for one in live(end):
        add(one, "after")
    return found
