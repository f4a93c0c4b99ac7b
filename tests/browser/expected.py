"""What the page has to say of a moment, as memreplay's Python interface says it."""

from __future__ import annotations

from typing import NamedTuple

import memreplay as mr
from memreplay.snapshot.model import MEASURES, MeasureName

LIFE_MEASURES: tuple[MeasureName, ...] = tuple(one for one in MEASURES if one != "reserved")
WAYS: tuple[str, ...] = ("stack", "file", "category", "pool")


def event_of(replay: mr.Replay, moment: int) -> int:
    """The event after which a moment is; one before the first for moment 0."""
    return replay.first_event + moment - 1


def moment_of(replay: mr.Replay, event: int) -> int:
    """The other way round."""
    return event - replay.first_event + 1


def bytes_at(snap: mr.Snapshot, device: int, moment: int) -> dict[str, int]:
    """Bytes of every measure."""
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
    """Bytes, counts and names of all groups, as `memreplay at` has them."""
    event = event_of(snap.replay(device), moment)
    when = mr.When("start") if moment == 0 else mr.When("event", event)
    found = mr.at(snap, when, measure=measure, by=way, device=device, top=0, fold=True)
    groups = found.devices[0].groups
    assert groups is not None
    return sorted((one.bytes, one.count, one.label) for one in groups)


class Blocking(NamedTuple):
    """Who blocks what is free at a moment."""

    free: int
    blocked: int
    returned: int
    private: int
    blockers: list[tuple[int, int, int, int]]
    """Bytes, those blocked alone, blocks, segments; the most first."""
    pools: list[tuple[str | None, str, bool, int, int, int, int]]
    """Pool, stream, whether small; segments, free bytes, the largest free block, what can go."""


def blocking(snap: mr.Snapshot, device: int, moment: int, way: str) -> Blocking:
    """As `memreplay fragmentation` has it."""
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
