"""Compute each step's allocations, peak and remaining memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import FILTERS, Selection
from memreplay.analysis.steps.boundaries import find_steps
from memreplay.analysis.steps.records import Found, Piece, StepOptions
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.steps.result import DeviceSteps, Odd, Outside, Steady, Step, StepsReport
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

# Factors that convert a median or mean absolute deviation to the standard deviation of normally
# distributed noise.
MEDIAN_SCALE, MEAN_SCALE = 1.4826, 1.2533
ODD_SCORE = 3.5
ODD_SHARE = 0.05  # steps that deviate from the median by at most this share aren't odd
LEAST_STEADY = 5  # with fewer steps, none is reported as odd
QUIET = 10  # the warm-up ends before this many steps without growth


@takes(
    selection=Selection,
    options=StepOptions,
    without=("by", "top", "rules", "fold", *FILTERS),
)
def steps_report(snap: Snapshot, selection: Selection, options: StepOptions) -> StepsReport:
    """Return each device's steps.

    Steps are the annotations named `annotation` (names are compared up to a #), or ranges of
    `period` events; by default, they're found automatically (docs/steps.md). Raises
    NothingToTellError if no device has steps, and UsageError if none has the requested ones.
    """
    devices = tuple(
        _device_steps(
            snap,
            usage,
            find_steps(snap, usage, annotation=options.annotation, period=options.period),
            selection.strict,
        )
        for usage in chosen_usages(snap, selection)
    )
    if not any(device.steps for device in devices):
        empty = "the file has neither events nor segments"
        why = devices[0].missing if devices else empty
        raise (UsageError if options.given else NothingToTellError)(
            f"no steps: {why}", brief=devices[0].missing_brief if devices else empty
        )
    return StepsReport(
        file=snap.file,
        measure=selection.measure,
        devices=devices,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        pool=selection.pool,
        stream=selection.stream,
    )


class Summed(NamedTuple):
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


def _device_steps(snap: Snapshot, usage: Usage, found: Found, strict: bool) -> DeviceSteps:
    replay = usage.replay
    trust = verdict(snap, usage, strict=strict)
    summed = sum_steps(usage, found.pieces) if found.source else None
    steps = summed.steps if summed else ()
    warm = warm_up(steps)
    return DeviceSteps(
        **inlined(DeviceSteps, device_facts(snap, replay, trust)),
        measure=usage.measure,
        start_bytes=usage.start_bytes,
        end_bytes=usage.end_bytes,
        step_source=found.source,
        missing=found.missing,
        missing_brief=found.brief,
        steps=steps,
        before=summed.before if summed else None,
        between=summed.between if summed else None,
        after=summed.after if summed else None,
        warm_up_steps=warm,
        steady=_steady(steps[warm:]),
        odd=_odd(steps[warm:]),
    )


def median(values: Sequence[int]) -> int:
    """Return the median. For an even number of values, it's the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) // 2


def deviation(values: Sequence[int], middle: int) -> float:
    """Return the typical distance from the median: the scaled median or the scaled mean of all
    distances, whichever is larger.
    """
    away = [abs(value - middle) for value in values]
    return max(MEDIAN_SCALE * median(away), MEAN_SCALE * sum(away) / len(away))


def warm_up(steps: Sequence[Step]) -> int:
    """Return the number of steps at the beginning that grow unlike later ones. The warm-up is at
    most a third of all steps.
    """
    first = len(steps) // 3
    later = [step.growth_bytes for step in steps[first:]]
    if not first:
        return 0
    middle = median(later)
    swing = median([step.peak_bytes - step.end_bytes for step in steps[first:]])
    most = middle + max(3 * MEDIAN_SCALE * median([abs(g - middle) for g in later]), swing / 100)
    found = 0
    high = steps[0].end_bytes - steps[0].growth_bytes
    for step in steps[:first]:
        if step.number > found + QUIET:
            break
        # A rise that only makes up for an earlier fall isn't warm-up.
        if step.growth_bytes > most and step.end_bytes > high + most:
            found = step.number
        high = max(high, step.end_bytes)
    return found


def _steady(steps: Sequence[Step]) -> Steady | None:
    if not steps:
        return None
    durations = [step.duration_us for step in steps]
    timed = [one for one in durations if one is not None]
    return Steady(
        first=steps[0].number,
        last=steps[-1].number,
        peak_bytes=median([step.peak_bytes for step in steps]),
        end_bytes=median([step.end_bytes for step in steps]),
        growth_bytes=median([step.growth_bytes for step in steps]),
        allocation_count=median([step.allocation_count for step in steps]),
        allocated_bytes=median([step.allocated_bytes for step in steps]),
        duration_us=median(timed) if len(timed) == len(steps) else None,
    )


def _odd(steps: Sequence[Step]) -> tuple[Odd, ...]:
    """Return the steps after the warm-up that are far from the median, farthest first
    (docs/steps.md has the rule).
    """
    if len(steps) < LEAST_STEADY:
        return ()
    found: list[tuple[float, Odd]] = []
    for quantity in ("peak_bytes", "allocated_bytes", "duration_us"):
        values = [getattr(step, quantity) for step in steps]
        if None in values:
            continue
        middle = median(values)
        scale = deviation(values, middle)
        for step, value in zip(steps, values, strict=True):
            away = abs(value - middle)
            if away > ODD_SCORE * scale and away > ODD_SHARE * middle:
                found.append(
                    (away / middle if middle else 0.0, Odd(step.number, quantity, value, middle))
                )
    found.sort(key=lambda one: (-one[0], one[1].number))
    return tuple(odd for _, odd in found)
