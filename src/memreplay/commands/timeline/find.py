"""Compute measures over events in buckets, with the groups that held memory, annotations and failed
requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways.blocks import part_label
from memreplay.analysis.moments.marks import ooms_of, spans_read
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages, fitting_by, shows_reserved
from memreplay.analysis.selecting.selection import Measures, Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.timeline.result import Axis, Layer, Marks, Series, TimelineReport
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.snapshot.model import Group
from memreplay.snapshot.record import inlined
from memreplay.snapshot.recorded_memory import card_samples

if TYPE_CHECKING:
    from memreplay.snapshot.model import Buckets, MeasureName
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

# Maximum number of values in layers. Each value takes 8 bytes in the engine, but about 40 in
# Python.
MOST_LAYERED = 1 << 24


IDLE_PARTS = 40  # number of equal parts of the recording in which events are counted
# The program is mostly idle if the emptier half of the parts has less than this share of the
# events.
IDLE_SHARE = 0.05
FEWEST_JUDGED = 100  # with fewer events, any program would look idle most of the time


POINTS = 1_000
MOST_POINTS = 1_000_000


class TimelineOptions(Options, frozen=True):
    """Options for the measures, the axis and the number of buckets."""

    measure: Measures = ()
    x: Annotated[
        Literal["event", "time", "utc"] | None,
        Opt(
            "The horizontal axis: time since the first event (the default), utc for times of day,"
            " or event (the default if the file has no times, or if more than half of its duration"
            " contains under 5% of the events).",
            "AXIS",
            brief="The horizontal axis: time, utc or event.",
        ),
    ] = None
    points: Annotated[
        int | None,
        Opt(
            "Divide events or time into N buckets, each with its minimum and maximum (default: as"
            f" many as fit the width for text, else {POINTS}).",
            "N",
            least=1,
            most=MOST_POINTS,
            brief="Divide the recording into N buckets.",
        ),
    ] = None


@takes(selection=Selection, options=TimelineOptions, without=("measure",))
def timeline_report(
    snap: Snapshot, selection: Selection, options: TimelineOptions
) -> TimelineReport:
    """Return each measure on each device, in at most `points` buckets (default 1,000).

    `measure` replaces the selection's single measure. `x` defaults to "time" if all devices with
    events have distinct times and aren't mostly idle, otherwise "event". With `by`, each bucket's
    maximum is split into the `top` groups with the highest individual peaks (0: all) and the rest.
    Raises UsageError for missing times, and NothingToTellError if only reserved memory was
    requested and the file has none.

    With `fold`, stacks that differ only in plumbing frames are merged.
    """
    measures = options.measure or (selection.measure,)
    x: Axis | None = "time" if options.x == "utc" else options.x
    points = POINTS if options.points is None else options.points
    if selection.by is not None:
        for measure in measures:
            fitting_by(measure, selection.by)
    usages = _usages(snap, selection, measures)
    # Sorting is stable, so measures keep the given order.
    usages.sort(key=lambda usage: usage.replay.device)
    replays = {usage.replay.device: usage.replay for usage in usages}
    axis = _axis(list(replays.values()), x)
    idle = x is None and axis == "time" and _mostly_idle(usages)
    if idle:
        axis = "event"
    grouper = (
        None
        if selection.by is None
        else Grouper(snap, selection.by, selection.rules, fold=selection.fold)
    )
    drawing = _Drawing(axis, points, grouper, selection)
    return TimelineReport(
        file=snap.file,
        x=axis,
        idle=idle,
        points=points,
        by=selection.by,
        devices=tuple(_series(snap, usage, drawing) for usage in usages),
        marks=tuple(
            Marks(device, spans_read(snap, replay), ooms_of(replay))
            for device, replay in replays.items()
        ),
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
    )


def _axis(replays: list[Replay], wanted: Axis | None) -> Axis:
    if wanted == "event":
        return "event"
    ranges = {replay.device: replay.time_range for replay in replays if replay.events}
    timeless = [device for device, found in ranges.items() if found is None]
    if wanted == "time":
        if timeless:
            raise UsageError(f"the events of device {timeless[0]} have no times; use --x event")
        return "time"
    differ = any(found[0] != found[1] for found in ranges.values() if found is not None)
    return "time" if differ and not timeless else "event"


def _mostly_idle(usages: Sequence[Usage]) -> bool:
    """Return whether the busiest device has fewer than 5% of its events in more than half of the
    time, so that a plot over time would use few columns.
    """
    usage = max(usages, key=lambda one: one.replay.events, default=None)
    if usage is None or usage.replay.events < FEWEST_JUDGED:
        return False
    events = sorted(usage.buckets(IDLE_PARTS, by_time=True).events)
    if len(events) < IDLE_PARTS:  # the time range is shorter than IDLE_PARTS microseconds
        return False
    return sum(events[: IDLE_PARTS // 2 + 1]) < IDLE_SHARE * usage.replay.events


def _usages(snap: Snapshot, selection: Selection, measures: Sequence[MeasureName]) -> list[Usage]:
    """Return each measure on each chosen device.

    Reserved memory is left out if the file lacks it and there are other measures.
    """
    several = tuple(dict.fromkeys(measures))
    if len(several) > 1 and "reserved" in several and not shows_reserved(snap, selection):
        several = tuple(one for one in several if one != "reserved")
    return [
        usage
        for measure in several
        for usage in chosen_usages(snap, replace(selection, measure=measure))
    ]


class _Drawing(NamedTuple):
    """The common settings for splitting each measure into buckets and layers."""

    axis: Axis
    points: int
    grouper: Grouper | None
    selection: Selection


def _series(snap: Snapshot, usage: Usage, drawing: _Drawing) -> Series:
    """Return one measure of one device."""
    replay, grouper, selection = usage.replay, drawing.grouper, drawing.selection
    peak = usage.peak
    buckets = usage.buckets(drawing.points, by_time=drawing.axis == "time")
    layers: tuple[Layer, ...] | UnsetType = UNSET
    rest: tuple[int, ...] | UnsetType = UNSET
    total: int | UnsetType = UNSET
    if grouper is not None:
        layers, rest, total = _layers(usage, buckets, grouper, selection.top)
    outside, others = _outside(snap, replay, buckets)
    trust = verdict(snap, usage, strict=selection.strict)
    start, stop = replay.time_range or (None, None)
    return Series(
        **inlined(Series, replace(device_facts(snap, replay, trust), start_us=start)),
        measure=usage.measure,
        start_bytes=usage.start_bytes,
        peak_bytes=peak.bytes,
        peak_event=peak.event_index,
        peak_us=peak.time_us,
        lowest_bytes=min(buckets.min_bytes),
        end_bytes=usage.end_bytes,
        end_us=stop,
        event_index=buckets.event_index,
        bucket_events=buckets.events,
        time_us=buckets.time_us,
        min_bytes=buckets.min_bytes,
        max_bytes=buckets.max_bytes,
        max_event=buckets.max_event,
        outside_bytes=outside,
        other_bytes=others,
        groups_total=total,
        groups=layers,
        rest_bytes=rest,
    )


Maybe = list[int | None] | UnsetType


def _outside(snap: Snapshot, replay: Replay, buckets: Buckets) -> tuple[Maybe, Maybe]:
    """Return the bytes outside PyTorch's allocator and those of other processes in each bucket."""
    samples = {one.device: one for one in card_samples(snap)}.get(replay.device)
    if samples is None or replay.time_range is None:
        return UNSET, UNSET
    at = samples.fullest(buckets.time_us[0], [*buckets.time_us[1:], None])
    return (
        [None if one is None else samples.outside(one) for one in at],
        [None if one is None else samples.other_bytes[one] for one in at],
    )


def _layers(
    usage: Usage, buckets: Buckets, grouper: Grouper, top: int
) -> tuple[tuple[Layer, ...], tuple[int, ...], int]:
    """Return the layers of the groups with the highest peaks, the layer of the rest, and the number
    of groups.
    """
    by = grouper.by
    reserved = usage.measure == "reserved"
    if reserved:
        found, total = _reserved_parts(usage, grouper, top)
    else:
        found, total = grouper.highest_groups(usage, usage.peak.event_index, top)
    if (len(found) + 1) * len(buckets) > MOST_LAYERED:
        raise UsageError(
            f"{len(found):,} groups in {len(buckets):,} buckets are too many; lower --top"
            " or --points"
        )
    keys = [number for number, *_ in found]
    if reserved:
        rows = usage.reserved_layers(by, keys, buckets.max_event)
    else:
        rows = usage.layers(grouper.keys(usage), keys, buckets.max_event)
    layers = tuple(
        Layer(
            label=group.label,
            user=group.user,
            libraries=group.libraries,
            frames=group.frames,
            of=group.of,
            peak_bytes=most,
            peak_event=event,
            bytes=row,
            group=group,
        )
        for (_, group, most, event), row in zip(found, rows, strict=False)
    )
    return layers, tuple(rows[-1]), total


def _reserved_parts(
    usage: Usage, grouper: Grouper, top: int
) -> tuple[list[tuple[int, Group, int, int]], int]:
    """Like `Grouper.highest_groups`, but for the reserved memory of pools or streams."""
    parts = [
        part
        for part in usage.parts(grouper.by, usage.peak.event_index)
        if part.reserved_peak_bytes > 0
    ]
    parts.sort(key=lambda part: (-part.reserved_peak_bytes, part.reserved_peak_event))
    shown = parts[:top] if top else parts
    whole = sum(part.bytes for part in parts)
    return [
        (
            key,
            Group(
                label=part_label(part, grouper.by),
                bytes=part.bytes,
                count=part.count,
                share=part.bytes / whole if whole else 0.0,
            ),
            part.reserved_peak_bytes,
            part.reserved_peak_event,
        )
        for key, part in zip(usage.part_classes(grouper.by, shown), shown, strict=True)
    ], len(parts)
