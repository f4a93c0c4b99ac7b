"""Replay `held` and `reserved` bytes from a snapshot with slow, simple code: a second oracle.

`held` is the requested bytes that the program holds, from `alloc` to `free_requested`; `reserved`
is the bytes in segments. tests/oracle.py replays `requested`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from tests import oracle


@dataclass
class MeasureReplay:
    """A measure over time. `usage[i]` is the usage after event i; `carried_over_bytes` is the usage
    at the start.
    """

    carried_over_bytes: int
    usage: list[int]
    end_bytes: int
    reconciliation_bytes: int  # bytes by which the replay's end exceeds the final segments


class Holding(NamedTuple):
    """A block held from its alloc (-1: before the first event) until its end (None: never)."""

    alloc_index: int
    end_index: int | None
    addr: int
    size: int


class Range(NamedTuple):
    """A range of addresses, excluding its end."""

    start: int
    end: int


GROWS = ("segment_alloc", "segment_map")
SHRINKS = ("segment_free", "segment_unmap")


# --------------------------------------------------------------------------------------------------
# Held
# --------------------------------------------------------------------------------------------------


def held(snapshot: Any, device: int) -> MeasureReplay:
    """Replay the requested bytes of blocks between alloc and free_requested."""
    events = oracle.trace_of(snapshot, device)
    holdings = holdings_of(snapshot, device)
    start = sum(one.size for one in holdings if one.alloc_index == -1)
    changes = [0] * len(events)
    for one in holdings:
        if one.alloc_index != -1:
            changes[one.alloc_index] += one.size
        if one.end_index is not None:
            changes[one.end_index] -= one.size
    blocks = oracle.active_blocks(snapshot, device)
    expected = sum(block.requested_size for block in blocks if block.state == "active_allocated")
    return _replay(start, changes, expected)


def holdings_of(snapshot: Any, device: int) -> list[Holding]:
    """Return each time span in which the program held requested memory."""
    requests: dict[int, list[int]] = {}  # address -> events that request a free at this address
    for index, event in enumerate(oracle.trace_of(snapshot, device)):
        if event.get("action") == "free_requested":
            requests.setdefault(oracle.unsigned(event.get("addr", 0)), []).append(index)
    states: dict[
        int, str
    ] = {}  # address -> its block's state in the final segments, unless inactive
    for block in oracle.active_blocks(snapshot, device):
        states.setdefault(block.addr, block.state)

    found = []
    for one in oracle.replay(snapshot, device).lifetimes:
        within = [
            index
            for index in requests.get(one.addr, [])
            if index > one.alloc_index and (one.free_index is None or index < one.free_index)
        ]
        if within:
            found.append(Holding(one.alloc_index, within[0], one.addr, one.size))
        elif one.alloc_index == -1 and one.free_index is not None and requests:
            continue  # its free was requested before the first event
        elif one.alloc_index == -1 and one.free_index is None:
            if states[one.addr] == "active_allocated":
                found.append(Holding(-1, None, one.addr, one.size))
        else:
            found.append(Holding(one.alloc_index, one.free_index, one.addr, one.size))
    return found


# --------------------------------------------------------------------------------------------------
# Reserved
# --------------------------------------------------------------------------------------------------


def reserved(snapshot: Any, device: int) -> MeasureReplay:
    """Replay the segments' bytes."""
    start = sum(one.end - one.start for one in ranges_at_start(snapshot, device))
    changes = []
    for event in oracle.trace_of(snapshot, device):
        action, touched = event.get("action"), _range(event.get("addr", 0), event.get("size", 0))
        size = touched.end - touched.start
        changes.append(size if action in GROWS else -size if action in SHRINKS else 0)
    return _replay(start, changes, sum(one.end - one.start for one in _final(snapshot, device)))


def ranges_at_start(snapshot: Any, device: int) -> list[Range]:
    """Return the parts of segments at the start, in pieces that no event splits.

    The first event that touches an address shows whether it was reserved: it was if the event frees
    the address, and it wasn't if the event adds it. If no event touches an address, it was reserved
    if it's reserved at the end.
    """
    touches = [
        (event["action"], _range(event.get("addr", 0), event.get("size", 0)))
        for event in oracle.trace_of(snapshot, device)
        if event.get("action") in GROWS + SHRINKS
    ]
    final = _final(snapshot, device)
    everything = [touched for _, touched in touches] + final
    cuts = sorted({cut for one in everything for cut in one})
    found = []
    for piece in map(Range, cuts, cuts[1:]):
        first = next((action for action, touched in touches if _inside(piece, touched)), None)
        if first in SHRINKS or (first is None and any(_inside(piece, one) for one in final)):
            found.append(piece)
    return found


def _final(snapshot: Any, device: int) -> list[Range]:
    return [
        _range(segment.get("address", 0), segment.get("total_size", 0))
        for segment in oracle.segments_of(snapshot)
        if segment.get("device", 0) == device
    ]


def _range(start: int, size: int) -> Range:
    """Return a segment's range of addresses, or an empty one if it would exceed the address
    space.
    """
    start = oracle.unsigned(start)
    return Range(start, start + size) if start + size < 2**64 else Range(start, start)


def _inside(piece: Range, whole: Range) -> bool:
    return whole.start <= piece.start and piece.end <= whole.end


def _replay(start: int, changes: list[int], expected: int) -> MeasureReplay:
    usage = list(accumulate(changes, initial=start))
    return MeasureReplay(start, usage[1:], usage[-1], usage[-1] - expected)
