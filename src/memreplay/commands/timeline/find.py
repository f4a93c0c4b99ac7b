"""Measures over events in buckets, with who held them, and what else happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways.blocks import part_label
from memreplay.analysis.moments.marks import ooms_of, spans_read
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages, fitting_by
from memreplay.analysis.selecting.selection import Measures, Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.timeline.result import Axis, Layer, Marks, Series, TimelineReport
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.snapshot.model import Group
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.snapshot.model import Buckets
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

# Numbers of layers: 8 bytes each in the engine, and about 40 in Python.
MOST_LAYERED = 1 << 24


IDLE_PARTS = 40  # of the time, each busy or idle
IDLE_SHARE = 0.05  # of all events, in most of the time
FEWEST_JUDGED = 100  # events: fewer leave most parts of any program empty


POINTS = 1_000
MOST_POINTS = 1_000_000


class TimelineOptions(Options, frozen=True):
    """Which measures, over which axis, in how many buckets."""

    measures: Measures = ()
    x: Annotated[
        Axis | None,
        Opt(
            "The horizontal axis: time (the default where the file has times) or events (the"
            " default where more than half of the time holds under 5 % of the events).",
            "AXIS",
            brief="The horizontal axis: time or event.",
        ),
    ] = None
    points: Annotated[
        int | None,
        Opt(
            "Cut events or time into N buckets, each with its minimum and maximum (default: as"
            f" many as fit the width for text, else {POINTS}).",
            "N",
            least=1,
            most=MOST_POINTS,
            brief="Cut the recording into N buckets.",
        ),
    ] = None


@takes(selection=Selection, options=TimelineOptions)
def timeline_report(
    snap: Snapshot, selection: Selection, options: TimelineOptions
) -> TimelineReport:
    """Each measure on each device, in at most `points` buckets (1,000 where that is None).

    `measures` are several at once, in place of the selection's one.
    `x` is "time" unless it is given, where all devices with events have times that differ and the
    program wasn't idle for most of it, else "event". With `by`, each bucket is layered where it is
    highest: the `top` groups that hold most, each at its own moment (0: all), and the rest. Raises
    UsageError for times that are not there.

    With `fold` stacks that differ only in plumbing are one group.
    """
    measures = options.measures or (selection.measure,)
    x, points = options.x, POINTS if options.points is None else options.points
    if selection.by is not None:
        for measure in measures:
            fitting_by(measure, selection.by)
    usages = [
        usage
        for measure in dict.fromkeys(measures)
        for usage in chosen_usages(snap, replace(selection, measure=measure))
    ]
    usages.sort(key=lambda usage: usage.replay.device)  # stable: measures stay as they were given
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
            raise UsageError(
                f"the events of device {timeless[0]} have no times; draw them by event (--x event)"
            )
        return "time"
    differ = any(found[0] != found[1] for found in ranges.values() if found is not None)
    return "time" if differ and not timeless else "event"


def _mostly_idle(usages: Sequence[Usage]) -> bool:
    """Whether more than half of the time of the device with most events holds under 5 % of them: a
    picture over time would show what happened in a few columns."""
    usage = max(usages, key=lambda one: one.replay.events, default=None)
    if usage is None or usage.replay.events < FEWEST_JUDGED:
        return False
    events = sorted(usage.buckets(IDLE_PARTS, by_time=True).events)
    if len(events) < IDLE_PARTS:  # microseconds
        return False
    return sum(events[: IDLE_PARTS // 2 + 1]) < IDLE_SHARE * usage.replay.events


class _Drawing(NamedTuple):
    """How each measure is cut and layered."""

    axis: Axis
    points: int
    grouper: Grouper | None
    selection: Selection


def _series(snap: Snapshot, usage: Usage, drawing: _Drawing) -> Series:
    """One measure of one device."""
    replay, grouper, selection = usage.replay, drawing.grouper, drawing.selection
    peak = usage.peak
    buckets = usage.buckets(drawing.points, by_time=drawing.axis == "time")
    layers: tuple[Layer, ...] | UnsetType = UNSET
    rest: tuple[int, ...] | UnsetType = UNSET
    total: int | UnsetType = UNSET
    if grouper is not None:
        layers, rest, total = _layers(usage, buckets, grouper, selection.top)
    trust = verdict(snap, usage, strict=selection.strict)
    start, stop = replay.time_range or (None, None)
    return Series(
        **inlined(Series, replace(device_facts(snap, replay, trust), start_us=start)),
        measure=usage.measure,
        start_bytes=usage.start_bytes,
        peak_bytes=peak.bytes,
        peak_event=peak.event_index,
        peak_us=peak.time_us,
        minimum_bytes=min(buckets.min_bytes),
        end_bytes=usage.end_bytes,
        stop_us=stop,
        event_index=buckets.event_index,
        bucket_events=buckets.events,
        time_us=buckets.time_us,
        min_bytes=buckets.min_bytes,
        max_bytes=buckets.max_bytes,
        max_event=buckets.max_event,
        groups_total=total,
        groups=layers,
        rest_bytes=rest,
    )


def _layers(
    usage: Usage, buckets: Buckets, grouper: Grouper, top: int
) -> tuple[tuple[Layer, ...], tuple[int, ...], int]:
    """The groups that hold most at any time, the rest, and how many groups there are."""
    by = grouper.by
    reserved = usage.measure == "reserved"
    if reserved:
        found, total = _reserved_parts(usage, grouper, top)
    else:
        found, total = grouper.highest_groups(usage, usage.peak.event_index, top)
    if (len(found) + 1) * len(buckets) > MOST_LAYERED:
        raise UsageError(
            f"{len(found):,} groups in {len(buckets):,} buckets are too many; give --top or fewer"
            " --points"
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
    """As `Grouper.highest_groups`, of pools or streams by what is reserved for them."""
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
