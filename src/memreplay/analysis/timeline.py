"""Measures over events in buckets, with who held them, and what else happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.annotations import spans
from memreplay.analysis.choice import chosen_usages, fitting_by
from memreplay.analysis.grouping import Grouper
from memreplay.analysis.trust import strict_verdict, verdict
from memreplay.errors import UsageError
from memreplay.model import By, Filters, Group, MeasureName, Span
from memreplay.results.timeline import (
    Axis,
    Layer,
    Marks,
    OutOfMemory,
    Series,
    TimelineReport,
)

if TYPE_CHECKING:
    from memreplay.analysis.categories import Rule
    from memreplay.model import Buckets
    from memreplay.replay import Replay, Usage
    from memreplay.snapshot import Snapshot

# Numbers of layers: 8 bytes each in the engine, and about 40 in Python.
MOST_LAYERED = 1 << 24


def timeline_report(
    snap: Snapshot,
    *,
    measures: Sequence[MeasureName] = ("requested",),
    x: Axis | None = None,
    points: int = 1000,
    by: By | None = None,
    top: int = 8,
    pool: tuple[int, int] | None = None,
    stream: int | None = None,
    strict: bool = False,
    filters: Filters | None = None,
    rules: tuple[Rule, ...] | None = None,
    fold: bool = False,
) -> TimelineReport:
    """Each measure on each device, in at most `points` buckets; other options as `peak_report`.

    `x` is "time" unless it is given, where all devices with events have times that differ, else
    "event". With `by`, each bucket is layered where it is highest: the `top` largest groups at the
    peak (0: all), and the rest. Raises UsageError for times that are not there.

    With `fold` stacks that differ in plumbing alone are one group.
    """
    if by is not None:
        for measure in measures:
            fitting_by(measure, by)
    usages = [
        usage
        for measure in dict.fromkeys(measures)
        for usage in chosen_usages(snap, snap.devices, measure, pool, stream, filters)
    ]
    usages.sort(key=lambda usage: usage.replay.device)  # stable: measures stay as they were given
    replays = {usage.replay.device: usage.replay for usage in usages}
    axis = _axis(list(replays.values()), x)
    grouper = None if by is None else Grouper(snap, by, rules, fold=fold)
    return TimelineReport(
        file=snap.file,
        x=axis,
        points=points,
        by=by,
        devices=tuple(
            device_series(snap, usage, axis, points, grouper, top, strict) for usage in usages
        ),
        marks=tuple(
            Marks(device, spans_read(snap, replay), ooms_of(replay))
            for device, replay in replays.items()
        ),
        truncated=snap.truncation is not None,
        pool=pool,
        stream=stream,
        filters=filters,
    )


def _axis(replays: list[Replay], wanted: Axis | None) -> Axis:
    if wanted == "event":
        return "event"
    ranges = {replay.device: replay.time_range for replay in replays if replay.events}
    timeless = [device for device, found in ranges.items() if found is None]
    if wanted == "time":
        if timeless:
            raise UsageError(
                f"the events of device {timeless[0]} have no times; draw them by event (--x event)"
            )
        return "time"
    differ = any(found[0] != found[1] for found in ranges.values() if found is not None)
    return "time" if differ and not timeless else "event"


def device_series(
    snap: Snapshot,
    usage: Usage,
    axis: Axis,
    points: int,
    grouper: Grouper | None,
    top: int,
    strict: bool = False,
) -> Series:
    """One measure of one device."""
    replay = usage.replay
    peak = usage.peak
    buckets = usage.buckets(points, by_time=axis == "time")
    layers: tuple[Layer, ...] = ()
    rest: list[int] = []
    total = 0
    if grouper is not None:
        layers, rest, total = _layers(usage, buckets, grouper, top)
    trust = (strict_verdict if strict else verdict)(snap, usage)
    start, stop = replay.time_range or (None, None)
    return Series(
        device=replay.device,
        measure=usage.measure,
        exactness="exact" if trust.exact else "estimated",
        trusted=trust.trusted,
        reasons=trust.reasons,
        start_bytes=usage.start_bytes,
        peak_bytes=peak.bytes,
        event_index=peak.event_index,
        time_us=peak.time_us,
        minimum_bytes=min(buckets.min_bytes),
        final_bytes=usage.final_bytes,
        start_us=start,
        stop_us=stop,
        first_event=replay.first_event,
        events=replay.events,
        trace_events=snap.trace_events(replay.device),
        buckets=buckets,
        layers=layers,
        rest_bytes=tuple(rest),
        groups_total=total,
    )


def _layers(
    usage: Usage, buckets: Buckets, grouper: Grouper, top: int
) -> tuple[tuple[Layer, ...], list[int], int]:
    """The largest groups at the peak, the rest, and how many groups there are."""
    by = grouper.by
    peak = usage.peak.event_index
    groups: tuple[Group, ...]
    reserved = usage.measure == "reserved"
    if reserved:
        parts = usage.parts(by, peak)
        groups, total, _ = grouper.parts(parts, top)
        there = [part for part in parts if part.bytes or part.count]
        keys = usage.part_classes(by, there[: len(groups)])
    else:
        keys, groups, total, _ = grouper.keyed_groups(usage, peak, top)
    if (len(keys) + 1) * len(buckets) > MOST_LAYERED:
        raise UsageError(
            f"{len(keys):,} groups in {len(buckets):,} buckets are too much; give a --top or fewer"
            " --points"
        )
    if reserved:
        rows = usage.reserved_layers(by, keys, buckets.max_event)
    else:
        rows = usage.layers(grouper.keys(usage), keys, buckets.max_event)
    layers = tuple(Layer(group, row) for group, row in zip(groups, rows, strict=False))
    return layers, rows[-1], total


def spans_read(snap: Snapshot, replay: Replay) -> tuple[Span, ...]:
    """Annotations that were there at any time of the events.

    A range, and a recording that kept its last events alone, leave many before them.
    """
    start, stop = replay.time_range or (0, 0)
    return tuple(
        span
        for span in spans(snap, replay)
        if span.start_us <= stop and (span.end_us is None or span.end_us >= start)
    )


def ooms_of(replay: Replay) -> tuple[OutOfMemory, ...]:
    """Every event in which memory was out."""
    found = replay.events_of("oom")
    times = replay.times_us([event - replay.first_event for event in found])
    return tuple(OutOfMemory(event, time) for event, time in zip(found, times, strict=True))
