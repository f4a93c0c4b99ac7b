"""Compute the values that the page should show at a moment, using memreplay's Python interface."""

from __future__ import annotations

from typing import NamedTuple

import memreplay as mr
from memreplay.snapshot.model import MEASURES, MeasureName

LIFE_MEASURES: tuple[MeasureName, ...] = tuple(one for one in MEASURES if one != "reserved")
WAYS: tuple[str, ...] = ("stack", "file", "category", "pool")


def event_of(replay: mr.Replay, moment: int) -> int:
    """Return the event before a moment; -1 for moment 0."""
    return replay.first_event + moment - 1


def moment_of(replay: mr.Replay, event: int) -> int:
    """Return the moment after an event, the inverse of `event_of`."""
    return event - replay.first_event + 1


def bytes_at(snap: mr.Snapshot, device: int, moment: int) -> dict[str, int]:
    """Return the byte count for every measure."""
    replay = snap.replay(device)
    event = event_of(replay, moment)
    found: dict[str, int] = {}
    for measure in MEASURES:
        usage = replay.measure(measure)
        found[measure] = (
            usage.start_bytes if event < replay.first_event else int(usage.series[moment - 1])
        )
    return found


def holders(
    snap: mr.Snapshot, device: int, moment: int, measure: MeasureName, way: str
) -> list[tuple[int, int, str]]:
    """Return the bytes, counts and names of all groups, as `memreplay at` does."""
    event = event_of(snap.replay(device), moment)
    when = mr.When("start") if moment == 0 else mr.When("event", event)
    found = mr.at(snap, when, measure=measure, by=way, device=device, top=0, fold=True)
    groups = found.devices[0].groups
    assert groups is not None
    return sorted((one.bytes, one.count, one.label) for one in groups)


class Blocking(NamedTuple):
    """The groups that keep free memory from being returned at a moment."""

    free: int
    blocked: int
    returned: int
    private: int
    blockers: list[tuple[int, int, int, int]]
    """One row per group, largest first: bytes, bytes blocked only by this group, blocks, segments.
    """
    pools: list[tuple[str | None, str, bool, int, int, int, int]]
    """One row per pool and stream: pool, stream, whether small; segments, free bytes, largest free
    block, releasable bytes.
    """


def blocking(snap: mr.Snapshot, device: int, moment: int, way: str) -> Blocking:
    """Return what `memreplay fragmentation` reports."""
    event = event_of(snap.replay(device), moment)
    when = mr.When("start") if moment == 0 else mr.When("event", event)
    (found,) = mr.fragmentation(snap, at=when, by=way, device=device, top=0, fold=True).devices
    return Blocking(
        found.free_bytes,
        found.pinned_bytes,
        found.returned_bytes,
        found.private_bytes,
        sorted(
            ((one.bytes, one.alone_bytes, one.count, one.segments) for one in found.pins),
            reverse=True,
        ),
        sorted(
            (
                (
                    None if one.pool is None else ":".join(map(str, one.pool)),
                    str(one.stream),
                    one.kind == "small",
                    one.segments,
                    one.free_bytes,
                    one.largest_free_bytes,
                    one.returnable_bytes,
                )
                for one in found.pools
            ),
            key=str,
        ),
    )
