"""Annotations and failed requests within the selected events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.moments.records import OutOfMemory
from memreplay.snapshot.model import Span

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


def spans_read(snap: Snapshot, replay: Replay) -> tuple[Span, ...]:
    """Return the annotations that overlap the selected events.

    With a range or a ring buffer, many annotations end before the first event.
    """
    start, stop = replay.time_range or (0, 0)
    return tuple(
        span
        for span in spans(snap, replay)
        if span.start_us <= stop and (span.end_us is None or span.end_us >= start)
    )


def ooms_of(replay: Replay) -> tuple[OutOfMemory, ...]:
    """Return all out-of-memory events."""
    found = replay.events_of("oom")
    times = replay.times_us([event - replay.first_event for event in found])
    return tuple(OutOfMemory(event, time) for event, time in zip(found, times, strict=True))
