"""Find the code that requested the reserved segments."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.analysis.groups.ways.base import NO_EVENTS, NO_STACK
from memreplay.analysis.groups.ways.code import ByCode
from memreplay.engine.query._vectors import chosen, constant, vector, zeros
from memreplay.snapshot.model import By, Group, Label

if TYPE_CHECKING:
    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

BEFORE = "(reserved before the recording)"
AGAINST = "(segment events that contradict each other)"
_NONE, _UNKNOWN, _ODD = -1, -2, -3  # used instead of a group's identity
_SOURCE_BITS = 32
_FIELDS = ("device", "flags", "address", "total_size", "stack")
Name = int  # the number of a group's stack, frame or text, or one of the values above


def reserved_groups(
    dimensions: Dimensions, by: By, usage: Usage, event: int, top: int
) -> tuple[tuple[Group, ...], int, int]:
    """Return (`top` largest groups, number of groups, number of segments) reserved after an event,
    by requesting code.

    They add up to the reserved memory.
    """
    way, of_all = dimensions.way(by), usage.replay.measure()
    assert isinstance(way, ByCode)  # `selecting.choice` only allows keys of code
    asked = requesting_stacks(dimensions.known.snap, usage.replay, event)
    whole = usage.bytes_at(event)
    n_bytes: Counter[Name] = Counter()
    segments: Counter[Name] = Counter()
    for stack, size, count in asked:
        name = stack if stack < 0 else way.key_of(of_all, stack)
        n_bytes[name] += size
        segments[name] += count
    # If two segments overlap, the addresses are covered once, but the sum counts them twice.
    if left := whole - sum(n_bytes.values()):
        n_bytes[_ODD] += left
    order = sorted(n_bytes, key=lambda name: (-n_bytes[name], name))
    groups = []
    for name in order[:top] if top else order:
        label = _label(way, of_all, name)
        share = n_bytes[name] / whole if whole else 0.0
        groups.append(
            Group(
                label=label.text,
                bytes=n_bytes[name],
                count=segments[name],
                share=share,
                frames=label.frames,
                user=label.user,
                of=(),
                libraries=label.libraries,
            )
        )
    return tuple(groups), len(order), sum(segments.values())


def requesting_stacks(snap: Snapshot, replay: Replay, event: int) -> list[tuple[int, int, int]]:
    """Return (stack, bytes, segments or mapped ranges) reserved after an event; the stack is a
    negative number if it's unknown or wasn't recorded.
    """
    start, end, source = _pieces(replay, event)
    if not len(source):
        return []
    regions = len(replay.reserved.regions())
    stack = constant(_UNKNOWN, len(source)).copy()
    later = source >= regions
    said = replay.segment_changes.stack[source[later] - regions]
    stack[later] = chosen(said > 0, said, _NONE)
    stack[~later] = _stacks_before(snap, replay)[source[~later]]
    known, which = stack.numbered()
    n_bytes = zeros(len(known))
    n_bytes.add_at(which, end - start)
    pairs = ((which << _SOURCE_BITS) | source).distinct()
    counts = (pairs >> _SOURCE_BITS).counts(len(known))
    return list(zip(known, n_bytes, counts, strict=True))


def _pieces(replay: Replay, event: int) -> tuple[Vector, Vector, Vector]:
    """Return the start, end and origin of each range of memory that is reserved after an event."""
    start, end, source = map(vector, replay.reserved.ranges_at(event - replay.first_event))
    return start, end, source


def _stacks_before(snap: Snapshot, replay: Replay) -> Vector:
    """Return the stack that requested each region reserved at the start.

    This is the stack of the final segment if that segment existed unchanged from the start.
    Expandable segments don't count, because they grow with many requests but have only the first
    one's stack.
    """
    regions = replay.reserved.regions()
    found = constant(_UNKNOWN, len(regions)).copy()
    device, flags, address, size, stack = map(replay.final_segments, _FIELDS)
    mine = ((device == replay.device) & ((flags & _core.EXPANDABLE) == 0)).rows()
    whole = replay.first_event + replay.events == snap.trace_events(replay.device)
    if not len(mine) or not whole or replay.reserved.misfits:
        return found
    mine = mine[address[mine].order()]
    address = address[mine]
    stop = address + size[mine]
    start, end, source = _pieces(replay, replay.first_event + replay.events - 1)
    kept = source < len(regions)
    start, end, source = start[kept], end[kept], source[kept]
    at = address.places(start, right=True) - 1
    same = (at >= 0) & (address[at] == start) & (stop[at] == end)
    said = stack[mine][at[same]]
    found[source[same]] = chosen(said > 0, said, _UNKNOWN)
    return found


def _label(way: ByCode, usage: Usage, name: Name) -> Label:
    if name < 0:
        said = BEFORE if way.known.snap.has_events else NO_EVENTS
        return Label({_NONE: NO_STACK, _UNKNOWN: said, _ODD: AGAINST}[name])
    return way.label(usage, name)
