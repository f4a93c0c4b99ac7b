"""What the page has to say of a moment, as memreplay's Python interface says it."""

from __future__ import annotations

import memreplay as mr
from memreplay.snapshot.model import MEASURES, MeasureName, Way

LIFE_MEASURES: tuple[MeasureName, ...] = tuple(one for one in MEASURES if one != "reserved")
WAYS: tuple[Way, ...] = ("stack", "file", "category", "pool")


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
    snap: mr.Snapshot, device: int, moment: int, measure: MeasureName, way: Way
) -> list[tuple[int, int, str]]:
    """Bytes, counts and names of all groups, as `memreplay at` has them."""
    event = event_of(snap.replay(device), moment)
    when = mr.When("start") if moment == 0 else mr.When("event", event)
    found = mr.at(snap, when, measure=measure, by=way, device=device, top=0, fold=True)
    groups = found.devices[0].groups
    assert groups is not None
    return sorted((one.bytes, one.count, one.label) for one in groups)
