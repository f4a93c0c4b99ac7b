"""Resolve a moment, such as a peak, the end, a time, a step or an annotation, to an event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.analysis.annotations.spans import spans
from memreplay.errors import UsageError
from memreplay.snapshot.model import When

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.model import Edge, PeakPoint, Span
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

SHOWN = 8  # maximum number of annotation names listed in an error
LONGEST = 60  # maximum length of a listed name, in characters
DAY_US = 86_400_000_000
# How far outside the recording a time may be, because printed times are rounded: clock times to
# seconds, elapsed times to three or more digits.
CLOCK_SLACK_US = 1_000_000
ELAPSED_SLACK, ELAPSED_SLACK_US = 0.01, 1_000


def resolve(snap: Snapshot, usage: Usage, when: When) -> int:
    """Return the event that leads to the state at a moment; `usage.replay.start` for the start.

    Raises UsageError if the device lacks the event, peak or annotation, or if the time is outside
    the recording.
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
        return _in_span(usage, _named(snap, replay, when.name or ""), when.edge or "start")
    if when.kind == "oom":
        return _oom(replay, when.value)
    if when.kind == "step":
        return _in_step(snap, usage, when.value, when.edge or "start")
    if when.kind == "address":
        from memreplay.analysis.moments.addresses import event_of, life_of

        return event_of(usage, life_of(usage, when))
    if replay.events == 0:
        raise UsageError(f"device {replay.device} has no events, so it has no times")
    time = when.value
    if when.kind == "time_of_day":
        time = of_day(replay, time)
    elif when.kind == "elapsed":
        time += _origin(replay)
    _check_time(snap, replay, time, of_clock=when.kind != "elapsed")
    return _read(replay, replay.event_at(time))


def _check_time(snap: Snapshot, replay: Replay, time: int, *, of_clock: bool) -> None:
    """Raise UsageError if a time is outside the recording. A device that is idle at the end keeps
    its state until the last event of any device.
    """
    if replay.time_range is None or replay.origin_us is None:
        return
    first, last = replay.origin_us, replay.time_range[1]
    if time > last:
        if not replay.reaches_end:
            return  # `_read` reports it
        ends = (snap.replay(device).time_range for device in snap.devices)
        last = max(end[1] for end in ends if end is not None)
    length = last - first
    slack = CLOCK_SLACK_US if of_clock else max(ELAPSED_SLACK_US, int(ELAPSED_SLACK * length))
    if first - slack <= time <= last + slack:
        return
    away, side = abs(time - first) / 1e6, "after" if time > first else "before"
    end = f"{length / 1e6:.3f}s" if length >= 1_000_000 else f"{length / 1000:g}ms"
    raise UsageError(
        f"device {replay.device}: that's {away:.3f} s {side} the first event; give a time from 0s"
        f" to {end}"
    )


def _peak(usage: Usage, number: int) -> int:
    if number < 1:
        raise UsageError(f"peaks are numbered from 1, the highest; there is no peak {number}")
    if number == 1:
        return usage.peak.event_index
    found = usage.peaks(number)
    if len(found) < number:
        there = "1 separate peak" if len(found) == 1 else f"{len(found)} separate peaks"
        raise UsageError(f"device {usage.replay.device} has {there}; there is no peak {number}")
    return found[-1].event_index


def _origin(replay: Replay) -> int:
    if replay.origin_us is None:
        raise UsageError("this snapshot has no times; give an event number")
    return replay.origin_us


def of_day(replay: Replay, since_midnight: int) -> int:
    """Convert a time of day to microseconds since the epoch, on the trace's first day or the day
    after. Raises UsageError if the trace has no times.
    """
    first = _origin(replay)
    time = first - first % DAY_US + since_midnight
    last = (replay.time_range or (0, 0))[1]
    return time + DAY_US if time < first and time + DAY_US <= last else time


def _oom(replay: Replay, number: int) -> int:
    failed = replay.events_of("oom")
    if 1 <= number <= len(failed):
        return failed[number - 1]
    if not failed:
        raise UsageError(
            f"device {replay.device}: no allocation failed in the events that were read"
        )
    there = "1 failed request" if len(failed) == 1 else f"{len(failed)} failed requests"
    raise UsageError(f"device {replay.device} has {there}, numbered from 1; there is no {number}")


def _in_step(snap: Snapshot, usage: Usage, number: int, edge: Edge) -> int:
    """Resolve a step to an event. A step's peak is its peak of requested bytes, so that the moment
    doesn't depend on the measure.
    """
    # Imported late: few moments are steps
    from memreplay.analysis.steps.boundaries import find_steps

    replay = usage.replay
    found = find_steps(snap, replay.measure())
    if not found.pieces:
        raise UsageError(f"device {replay.device} has no steps: {found.missing}")
    count = len(found.pieces)
    if number == 0 or not -count <= number <= count:
        there = "1 step" if count == 1 else f"{count} steps"
        raise UsageError(
            f"device {replay.device} has {there}, numbered from 1 (or from -1, the last);"
            f" there is no step {number}; memreplay steps lists them"
        )
    piece = found.pieces[number - 1 if number > 0 else number]
    # Rows are numbered from the first selected event. The state before a row is the state after the
    # previous row.
    first, last = piece.first + replay.first_event, piece.stop - 1 + replay.first_event
    if edge == "peak":
        return usage.highest(first, last).event_index
    return last if edge == "end" else first - 1


def _named(snap: Snapshot, replay: Replay, name: str) -> Span:
    found = spans(snap, replay, name)
    if found:
        return found[0]
    base, _, number = name.rpartition("#")
    if base and re.fullmatch(r"-?[0-9]{1,15}", number):
        found = spans(snap, replay, base)
    if not found:
        raise UsageError(_not_there(snap, replay, name))
    k = int(number)
    if k == 0 or not -len(found) <= k <= len(found):
        times = "once" if len(found) == 1 else f"{len(found)} times"
        raise UsageError(
            f"annotation {base!r} occurs {times}, numbered from 1 (or from -1, the last);"
            f" there is no #{number}"
        )
    return found[k - 1 if k > 0 else k]


def _not_there(snap: Snapshot, replay: Replay, name: str) -> str:
    names = list(dict.fromkeys(span.name for span in spans(snap, replay)))
    if not names:
        return (
            f"{_short(name)!r} isn't a moment (event, time, start, peak, oom, end, step:N,"
            f" annotation): {no_annotations_text(snap, replay)}"
        )
    there = ", ".join(map(_short, names[:SHOWN]))
    there += f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"device {replay.device} has no annotation {_short(name)!r}; known: {there}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def no_annotations_text(snap: Snapshot, replay: Replay) -> str:
    """Explain why a device has no annotations."""
    if not snap.annotation_count:
        return (
            "this snapshot has no annotations; record them with"
            " torch.profiler.record_function(), or give an event or a time"
        )
    if replay.events == 0:
        return f"device {replay.device} has no events, so it has no times"
    if not replay.has_times:
        return "this snapshot's events have no times, so annotations can't be placed"
    return f"device {replay.device} has no annotations"


def _in_span(usage: Usage, span: Span, edge: Edge) -> int:
    replay = usage.replay
    if edge == "end":
        if span.end_event is None:
            raise UsageError(f"annotation {_short(span.name)!r} doesn't end in this recording")
        return _read(replay, span.end_event)
    first = _read(replay, span.start_event)
    if edge == "start":
        return first
    last = replay.start + replay.events if span.end_event is None else span.end_event
    return usage.highest(first, _read(replay, last)).event_index


def highest_within(usage: Usage, every: Sequence[Span], name: str) -> PeakPoint | None:
    """Return the first peak within annotations with this name, or with this name up to a #; None if
    there are no such annotations.
    """
    from memreplay.analysis.moments.highest import Highest

    replay = usage.replay
    last = replay.start + replay.events
    highest = Highest(usage)
    found: tuple[int, int] | None = None
    for span in every:
        if name not in (span.name, span.name.partition("#")[0]):
            continue
        end = last if span.end_event is None else span.end_event
        before = end == replay.start and replay.first_event > 0
        after = span.start_event == last and not replay.reaches_end
        if before or after:  # the start or end of the selected range
            continue
        top = highest.within(span.start_event, end)
        if found is None or top[0] > found[0]:
            found = top
    return None if found is None else usage.highest(found[1], found[1])


def _read(replay: Replay, event: int) -> int:
    """Return the event for a time in the selected range.

    Raises UsageError for times outside the range, because it isn't known how long the states at the
    range's bounds lasted.
    """
    last = replay.start + replay.events
    read = f"the events that were read, {replay.first_event} to {last}"
    if event == replay.start and replay.first_event > 0:
        raise UsageError(
            f"device {replay.device}: that's before {read}; use start for the state there"
        )
    if event == last and not replay.reaches_end:
        raise UsageError(
            f"device {replay.device}: that's after the last of {read}; use end for the"
            " state after it"
        )
    return event
