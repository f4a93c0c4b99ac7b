"""Compute each step's allocations, peak and remaining memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import FILTERS, Selection
from memreplay.analysis.steps.boundaries import find_steps
from memreplay.analysis.steps.records import Found, StepOptions
from memreplay.analysis.steps.summing import Step, median, sum_steps
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.steps.result import DeviceSteps, Odd, Steady, StepsReport
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
