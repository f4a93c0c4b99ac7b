"""Finds the event that a moment means: a peak, an end, a time, a step, an annotation."""

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

SHOWN = 8  # names of annotations that an error lists
LONGEST = 60  # characters of one
DAY_US = 86_400_000_000


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
        return _in_span(usage, _named(snap, replay, when.name or ""), when.edge or "start")
    if when.kind == "oom":
        return _oom(replay, when.value)
    if when.kind == "step":
        return _in_step(snap, usage, when.value, when.edge or "start")
    if when.kind == "address":
        from memreplay.analysis.moments.addresses import event_of, life_of

        return event_of(usage, life_of(snap, usage, when))
    if replay.events == 0:
        raise UsageError(f"device {replay.device} has no events, and so no times")
    time = when.value
    if when.kind != "time":
        if replay.origin_us is None:
            raise UsageError("this snapshot has no times; name an event instead")
        time = _of_day(replay, time) if when.kind == "time_of_day" else time + replay.origin_us
    return _read(replay, replay.event_at(time))


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


def _of_day(replay: Replay, since_midnight: int) -> int:
    """The microseconds since the epoch of a time of day, on the day on which the trace starts; on
    the next one if that's where the events are."""
    first = replay.origin_us or 0
    time = first - first % DAY_US + since_midnight
    last = (replay.time_range or (0, 0))[1]
    return time + DAY_US if time < first and time + DAY_US <= last else time


def _oom(replay: Replay, number: int) -> int:
    failed = replay.events_of("oom")
    if 1 <= number <= len(failed):
        return failed[number - 1]
    if not failed:
        raise UsageError(f"device {replay.device}: no request failed in the events that were read")
    there = "1 failed request" if len(failed) == 1 else f"{len(failed)} failed requests"
    raise UsageError(f"device {replay.device} has {there}, counted from 1; there is no {number}")


def _in_step(snap: Snapshot, usage: Usage, number: int, edge: Edge) -> int:
    """Steps are those of the requested bytes, so that one moment is meant whatever is measured."""
    from memreplay.analysis.steps.boundaries import find_steps  # late: few moments are in steps

    replay = usage.replay
    found = find_steps(snap, replay.measure())
    if not found.pieces:
        raise UsageError(f"device {replay.device} has no steps: {found.missing}")
    count = len(found.pieces)
    if number == 0 or not -count <= number <= count:
        there = "1 step" if count == 1 else f"{count} steps"
        raise UsageError(
            f"device {replay.device} has {there}, counted from 1 (or from -1, the last): there is"
            f" no step {number}; memreplay steps lists them"
        )
    piece = found.pieces[number - 1 if number > 0 else number]
    # Rows count from the first event that was read; the state before a row is that after the one
    # before it.
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
            f"annotation {base!r} occurs {times}, counted from 1 (or from -1, the last): there is"
            f" no #{number}"
        )
    return found[k - 1 if k > 0 else k]


def _not_there(snap: Snapshot, replay: Replay, name: str) -> str:
    names = list(dict.fromkeys(span.name for span in spans(snap, replay)))
    if not names:
        return none_at_all(snap, replay)
    there = ", ".join(map(_short, names[:SHOWN]))
    there += f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"device {replay.device} has no annotation {_short(name)!r}; there are: {there}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def none_at_all(snap: Snapshot, replay: Replay) -> str:
    """Why a device has no annotations."""
    if not snap.annotation_count:
        return (
            "this snapshot has no annotations; record them with"
            " torch.profiler.record_function(), or name an event or a time"
        )
    if replay.events == 0:
        return f"device {replay.device} has no events, and so no times"
    if not replay.has_times:
        return "this snapshot's events have no times, so annotations cannot be matched with them"
    return f"device {replay.device} has no annotations"


def _in_span(usage: Usage, span: Span, edge: Edge) -> int:
    replay = usage.replay
    if edge == "end":
        if span.end_event is None:
            raise UsageError(f"annotation {_short(span.name)!r} does not end in this recording")
        return _read(replay, span.end_event)
    first = _read(replay, span.start_event)
    if edge == "start":
        return first
    last = replay.start + replay.events if span.end_event is None else span.end_event
    return usage.highest(first, _read(replay, last)).event_index


def highest_within(usage: Usage, every: Sequence[Span], name: str) -> PeakPoint | None:
    """The highest moment within any annotation of this name, or with this before its #, the first
    of equal ones; None where none of `every` that was read is one."""
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
        if before or after:  # of the range that was read
            continue
        top = highest.within(span.start_event, end)
        if found is None or top[0] > found[0]:
            found = top
    return None if found is None else usage.highest(found[1], found[1])


def _read(replay: Replay, event: int) -> int:
    """The event of a time, where the range that was read tells it: what came before its first event
    or after its last one is not known, so neither is how long its bounds lasted."""
    last = replay.start + replay.events
    read = f"the events that were read, {replay.first_event} to {last}"
    if event == replay.start and replay.first_event > 0:
        raise UsageError(f"device {replay.device}: that is before {read}; start is the state there")
    if event == last and not replay.reaches_end:
        raise UsageError(
            f"device {replay.device}: that is not before the last of {read}; end is the state after"
            " it"
        )
    return event
