"""Describe a simulation's failed request and its call site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.groups.requesting import requester_of
from memreplay.analysis.simulating.records import FailedRequest

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated


def failed_request(replay: Replay, grouper: Grouper, found: Simulated) -> FailedRequest | None:
    """Return the first request that fails in a simulation."""
    event = next(iter(found.failed_events), None)
    if event is None:
        return None
    return FailedRequest(
        event_index=event,
        time_us=replay.time_us(event),
        request_bytes=replay.value("size", event),
        asked_by=requester_of(grouper, replay.measure("active"), event),
    )
