"""The facts about a device that every report has: number, trust and selected events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.model import Exactness
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.snapshot.model import Verdict
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


class DeviceFacts(Record, frozen=True, kw_only=True):
    """The part of a result that is about its device; `commands.shared.fields` documents the
    fields.
    """

    device: int
    backend: str
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    first_event: int
    events: int
    trace_events: int
    start_us: int | None


def device_facts(snap: Snapshot, replay: Replay, trust: Verdict) -> DeviceFacts:
    """Return the facts about a device, with the verdict on its reported numbers."""
    return DeviceFacts(
        device=replay.device,
        backend=replay.backend.name,
        exactness=trust.exactness,
        trusted=trust.trusted,
        reasons=trust.reasons,
        first_event=replay.first_event,
        events=replay.events,
        trace_events=snap.trace_events(replay.device),
        start_us=replay.time_us(replay.start),
    )
