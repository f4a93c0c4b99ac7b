"""Which request fails in a simulation, and which code asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.groups.asking import asker_of
from memreplay.analysis.simulating.records import FailedRequest

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated


def failed_request(replay: Replay, grouper: Grouper, found: Simulated) -> FailedRequest | None:
    """The first that fails in a simulation."""
    event = next(iter(found.failed_events), None)
    if event is None:
        return None
    return FailedRequest(
        event_index=event,
        time_us=replay.time_us(event),
        request_bytes=replay.value("size", event),
        asked_by=asker_of(grouper, replay.measure("active"), event),
    )
