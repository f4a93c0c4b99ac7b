"""Finds the event that a moment means: a peak, an end, a time, an annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.annotations import spans
from memreplay.errors import UsageError
from memreplay.model import When

if TYPE_CHECKING:
    from memreplay.model import Edge, Span
    from memreplay.replay import Replay, Usage
    from memreplay.snapshot import Snapshot

SHOWN = 8  # names of annotations that an error lists


def resolve(snap: Snapshot, usage: Usage, when: When) -> int:
    """The event after which it is so, `usage.replay.start` for the start.

    Raises UsageError where the device has no such event, peak, time or annotation.
    """
    replay = usage.replay
    if when.kind == "start":
        return replay.start
    if when.kind == "end":
        return replay.start + replay.events
    if when.kind == "event":
        replay.check(when.value)
        return when.value
    if when.kind == "peak":
        return _peak(usage, when.value)
    if when.kind == "annotation":
        return _in_span(usage, _named(snap, replay, when.name), when.edge)
    time = when.value
    if when.kind == "elapsed":
        first = replay.time_us(replay.start)
        if first is None:
            raise UsageError("this snapshot has no times; name an event instead")
        time += first
    return replay.event_at(time)


def _peak(usage: Usage, number: int) -> int:
    if number < 1:
        raise UsageError(f"peaks count from 1, the highest; there is no peak {number}")
    if number == 1:
        return usage.peak.event_index
    found = usage.peaks(number)
    if len(found) < number:
        there = "1 separate peak" if len(found) == 1 else f"{len(found)} separate peaks"
        raise UsageError(f"device {usage.replay.device} has {there}; there is no peak {number}")
    return found[-1].event_index


def _named(snap: Snapshot, replay: Replay, name: str) -> Span:
    every = spans(snap, replay)
    for span in every:
        if span.name == name:
            return span
    if not every:
        raise UsageError(_none_at_all(snap, replay))
    base, _, number = name.rpartition("#")
    found = [span for span in every if base and span.name == base]
    if not found or not number.lstrip("-").isdecimal():
        names = list(dict.fromkeys(span.name for span in every))
        there = ", ".join(names[:SHOWN])
        there += f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise UsageError(f"device {replay.device} has no annotation {name!r}; there are: {there}")
    k = int(number)
    if k == 0 or not -len(found) <= k <= len(found):
        times = "once" if len(found) == 1 else f"{len(found)} times"
        raise UsageError(
            f"annotation {base!r} is there {times}; they count from 1 (from the last, -1): there"
            f" is no #{number}"
        )
    return found[k - 1 if k > 0 else k]


def _none_at_all(snap: Snapshot, replay: Replay) -> str:
    if not snap.native.n_annotations:
        return (
            "this snapshot has no annotations; record them with"
            " torch.profiler.record_function(), or name an event or a time"
        )
    if not replay.has_times:
        return "this snapshot's events have no times, so that annotations are at none of them"
    return f"device {replay.device} has no annotations"


def _in_span(usage: Usage, span: Span, edge: Edge) -> int:
    replay = usage.replay
    if edge == "start":
        return span.start_event
    last = replay.start + replay.events if span.end_event is None else span.end_event
    if edge == "end":
        if span.end_us is None:
            raise UsageError(f"annotation {span.name!r} does not end in this recording")
        return last
    return usage.highest(span.start_event, last).event_index
