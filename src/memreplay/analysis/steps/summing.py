"""Sum up what happens in each step: allocations, peak and remaining memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.steps.records import Piece
    from memreplay.snapshot.replay import Usage


class Step(Record, frozen=True, kw_only=True):
    """One step, which consists of the events from `first_event` to `last_event`."""

    number: int
    """Number of the step, from 1."""
    name: str
    """The step's annotation, or ""."""
    first_event: int
    """First event of the step."""
    last_event: int
    """Last event of the step; `first_event` - 1 if the step is empty."""
    start_us: int | None
    """Start time."""
    end_us: int | None
    """End time."""
    peak_bytes: int
    """The highest usage after any of the step's events, or before its first event."""
    peak_event: int
    """The first event after which usage is this high; `first_event` - 1 if that's the usage before
    the step.
    """
    end_bytes: int
    """Bytes live at the step's end."""
    growth_bytes: int
    """`end_bytes` minus the previous step's, so events between two steps count towards the later
    one. For the first step, `end_bytes` minus the usage before the step.
    """
    allocation_count: int
    """Number of allocations."""
    allocated_bytes: int
    """Bytes of the step's allocations."""

    @property
    def duration_us(self) -> int | None:
        """Duration of the step."""
        if self.start_us is None or self.end_us is None:
            return None
        return self.end_us - self.start_us


class Outside(Record, frozen=True):
    """Events outside all steps."""

    events: int
    """Number of events."""
    peak_bytes: int
    """The highest usage."""
    peak_event: int
    """The first event after which usage is this high; -1 if there are no events."""
    allocation_count: int
    """Number of allocations."""
    allocated_bytes: int
    """Bytes of the allocations outside all steps."""


class Summed(Struct, frozen=True):
    """A device's steps with their sums, and the memory outside them."""

    steps: tuple[Step, ...]
    before: Outside
    between: Outside
    after: Outside
    level: int  # usage before the first step


def sum_steps(usage: Usage, pieces: Sequence[Piece]) -> Summed:
    """Sum up the steps, and the events before, between and after them. Each event is in exactly one
    of these.
    """
    from memreplay.engine.query import _growth

    replay = usage.replay
    base = replay.first_event
    # Gaps and steps alternate, beginning and ending with a gap.
    spans: list[tuple[int, int]] = []
    at = 0
    for piece in pieces:
        spans += [(at, piece.first), (piece.first, piece.stop)]
        at = piece.stop
    spans.append((at, replay.events))
    native = None if usage.measure == "reserved" else usage.native
    sums = _growth.step_sums(replay.native, native, usage.column, usage.start_bytes, spans)
    level = before = sums[0][2]
    steps = []
    for number, (piece, found) in enumerate(zip(pieces, sums[1::2], strict=True), 1):
        peak, peak_at, end, allocations, allocated = found
        first, last = piece.first + base, piece.stop - 1 + base
        start_us, end_us = piece.start_us, piece.end_us
        if start_us is None and piece.first < piece.stop:
            start_us, end_us = _times(usage, piece)
        steps.append(
            Step(
                number=number,
                name=piece.name,
                first_event=first,
                last_event=last,
                start_us=start_us,
                end_us=end_us,
                peak_bytes=peak,
                peak_event=peak_at + base,
                end_bytes=end,
                growth_bytes=end - before,
                allocation_count=allocations,
                allocated_bytes=allocated,
            )
        )
        before = end
    gaps = [
        Outside(stop - first, peak, peak_at + base, allocations, allocated)
        for (first, stop), (peak, peak_at, _, allocations, allocated) in zip(
            spans[::2], sums[::2], strict=True
        )
    ]
    return Summed(tuple(steps), gaps[0], _sum_gaps(gaps[1:-1]), gaps[-1], level)


def _times(usage: Usage, piece: Piece) -> tuple[int | None, int | None]:
    """Return the times of a step's first event and of the first event after the step (or else its
    last event).
    """
    replay = usage.replay
    last = min(piece.stop, replay.events - 1)
    times = [replay.time_us(at + replay.first_event) for at in (piece.first, last)]
    return times[0], times[1]


def _sum_gaps(gaps: Sequence[Outside]) -> Outside:
    high = max((g for g in gaps if g.events), key=lambda g: g.peak_bytes, default=None)
    return Outside(
        events=sum(g.events for g in gaps),
        peak_bytes=high.peak_bytes if high else 0,
        peak_event=high.peak_event if high else -1,
        allocation_count=sum(g.allocation_count for g in gaps),
        allocated_bytes=sum(g.allocated_bytes for g in gaps),
    )


def median(values: Sequence[int]) -> int:
    """Return the median. For an even number of values, it's the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) // 2
