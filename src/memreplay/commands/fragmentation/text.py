"""Format fragmentation as text."""

from __future__ import annotations

from memreplay.analysis.groups.ways.blocks import pool_label, stream_label
from memreplay.commands.fragmentation.result import (
    DeviceFragmentation,
    FragmentationReport,
    MappedSegment,
    Moment,
    PoolShare,
    UnusedPoint,
)
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
    device_blocks,
)
from memreplay.render.headline import moment_phrases
from memreplay.render.holders import share
from memreplay.render.mapped import ALONE, Rest, blockers_table, elapsed, place_text
from memreplay.render.reasons import notes_of
from memreplay.render.trust import NOT_RESERVED, trust_label
from memreplay.render.units import count, counted, percent, size

_POINTS = {
    "start": "start",
    "most_unused": "most free",
    "peak": "active peak",
    "reserved": "reserved peak",
    "oom": "out of memory",
    "end": "end",
}
_ORDINALS = ("", "2nd", "3rd")
_PEAKS = {_POINTS["peak"], _POINTS["reserved"]}
MOMENTS: dict[Moment, str] = {
    "asked": "",
    "oom": "when a request failed",
    "reserved": "at the peak of reserved memory",
    "peak": "at the peak of active memory",
    "end": "",
}
_MAP_KEY = "blocks are # mostly in use, + partly in use, ~ waiting for a stream, . free"


def fragmentation_document(report: FragmentationReport, *, all_frames: bool = False) -> Document:
    """Build a section per device: unused memory over time, then where free memory is at the moment
    and what keeps it reserved.

    `all_frames`: show full stacks.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    blocks += device_blocks([_section(device, report, all_frames) for device in report.devices])
    blocks += [Note(why) for why in report.missing]
    return tuple(blocks)


def _section(
    device: DeviceFragmentation, report: FragmentationReport, all_frames: bool
) -> list[Block]:
    said = frozenset(("no_events",))
    blocks: list[Block] = [Heading(_headline(device))]
    blocks.append(Pairs(_pairs(device)))
    if not _is_final(device):
        blocks.append(_course(device))
    if device.reserved_bytes:
        blocks.append(_shares(device))
    if device.pins:
        blocks.append(
            blockers_table(
                device.pins,
                Rest(
                    device.pins_total - len(device.pins),
                    device.pins_rest_bytes,
                    device.pins_rest_count,
                ),
                device.pinned_bytes,
                report.by,
                all_frames=all_frames,
            )
        )
        blocks.append(Note(ALONE))
    if any(segment.bar for segment in device.map):
        blocks += _map(device)
    blocks += notes_of(device, said=said)
    return blocks


def _is_final(device: DeviceFragmentation) -> bool:
    """Return whether only the final state is known, so that there's no peak."""
    return not device.events or device.moment_kind == "end"


def _headline(device: DeviceFragmentation) -> tuple[str, ...]:
    free = device.reserved_bytes - device.in_use_bytes - device.pending_bytes
    whole = size(device.reserved_bytes)
    if free < device.outside_bytes:
        words = f"device {device.device}: {whole} reserved, free memory not known"
    else:
        part = percent(share(free, device.reserved_bytes))
        words = f"device {device.device}: {size(free)} of {whole} reserved is free ({part})"
    if not device.events:
        if device.trace_events and "no_events" not in device.reasons:
            return (f"{words}; no events in this range",)
        return (f"{words} in the final state",)
    if device.moment_kind == "end":
        return (f"{words} in the final state",)
    where, *when = moment_phrases(MOMENTS[device.moment_kind], device, ",")
    return (words, where.replace(" ,", ",").strip(", "), *when)


def _pairs(device: DeviceFragmentation) -> tuple[tuple[str, str], ...]:
    pairs = [("measure", f"reserved minus active, {trust_label(device)}")]
    known = _knows_reserved(device)
    if not _is_final(device):
        at = {one.name: one.reserved_bytes for one in device.moments}
        from_start = 0 < at["reserved"] == at.get("start")
        peak = "peak reserved (at the start)" if from_start else "peak reserved"
        unused = f"{size(device.unused_bytes)}: {peak} minus peak active bytes"
        pairs.append(("unused", unused if known else NOT_RESERVED))
    free = "nothing"
    if device.free_bytes:
        free = f"{size(device.free_bytes)} in {counted(device.blocks_free, 'block')}, largest "
        free += size(device.largest_free_bytes)
        if device.blocks_free > 1:
            free += f" ({percent(device.scattered_share)} is in the others)"
    if not known:
        free += ", counting only the file's segments"
    pairs.append(("free", free))
    back = f"releases {size(device.returned_bytes)}"
    if device.returned_pending_bytes:
        back += f", {size(device.returned_pending_bytes)} of it once its stream is done"
    if device.private_bytes:
        back += f"; up to {size(device.private_bytes)} more if private pools are released"
    pairs.append(("empty_cache()", back))
    blocked = "nothing"
    if device.pinned_bytes:
        part = percent(share(device.pinned_bytes, device.free_bytes))
        blocked = (
            f"{size(device.pinned_bytes)} ({part} of the free memory), by live blocks next to it"
        )
    pairs.append(("blocked", blocked))
    if device.pending_bytes:
        waits = f"{size(device.pending_bytes)} in {counted(device.blocks_pending, 'block')}"
        pairs.append(("pending", f"{waits}, freed and waiting for another stream"))
    slack = f"{size(device.slack_bytes)} allocated beyond the requested sizes"
    if device.slack_bytes < 0:
        slack = "not known: more was requested than blocks hold, so events are missing"
    pairs.append(("slack", slack))
    if known and device.mean_unused_bytes is not None and device.mean_unused_bytes >= 0:
        pairs.append(("on average", f"{size(device.mean_unused_bytes)} free over time"))
    if device.outside_bytes:
        odd = counted(device.outside_count, "live block")
        pairs.append(("outside", f"{size(device.outside_bytes)} in {odd} outside all segments"))
    return tuple(pairs)


def _knows_reserved(device: DeviceFragmentation) -> bool:
    """Return whether reserved memory is known: it's never less than active memory."""
    return all(one.unused_bytes >= 0 for one in device.moments)


def _course(device: DeviceFragmentation) -> Table:
    """Build a table with a row per moment. If several names, such as start and peak, mean the same
    moment, they share a row.
    """
    named: dict[int, list[str]] = {}
    known = _knows_reserved(device)
    peaks = sorted(
        (point for point in device.moments if point.name == "peak"),
        key=lambda point: (-point.active_bytes, point.event_index),
    )
    for point in device.moments:
        if point.name in ("most_unused", "reserved") and not known:
            continue
        names = named.setdefault(point.event_index, [])
        name = _POINTS[point.name]
        if point in peaks[1:]:
            name = f"{_ORDINALS[peaks.index(point)]} {name}"
        if name not in names:
            names.append(name)
    by_event = {point.event_index: point for point in device.moments}
    rows = tuple(_point(by_event[event], names, device) for event, names in named.items())
    titles = ("when", "event", "time", "reserved", "active", "free", "share")
    return Table(titles, ("left", *("right",) * 6), rows, spare=(2, 4, 6))


def _point(point: UnusedPoint, names: list[str], device: DeviceFragmentation) -> Row:
    at_start = point.event_index < device.first_event
    # If the moment has another name, leave out `start` and `end`, which the event already shows.
    telling = [name for name in names if name not in ("start", "end")]
    # The file has the segments of the end, even if their events are missing.
    known = point.unused_bytes >= 0 and (_knows_reserved(device) or "end" in names)
    if set(telling) >= _PEAKS:
        telling = ["both peaks", *(name for name in telling if name not in _PEAKS)]
    return Row(
        (
            ", ".join(telling[:2] or names),
            "start" if at_start else count(point.event_index),
            elapsed(point.time_us, device.start_us),
            size(point.reserved_bytes),
            size(point.active_bytes),
            size(point.unused_bytes) if known else "-",
            percent(share(point.unused_bytes, point.reserved_bytes)) if known else "-",
        )
    )


def _shares(device: DeviceFragmentation) -> Table:
    titles = ("free", "largest", "releasable", "in use", "reserved", "segments", "pool")
    return Table(
        titles, (*("right",) * 6, "left"), tuple(map(_share, device.pools)), spare=(5, 1, 3)
    )


def _share(one: PoolShare) -> Row:
    can_go = size(one.returnable_bytes)
    if not one.is_default and one.returnable_bytes:
        can_go = f"<= {can_go}"
    return Row(
        (
            size(one.free_bytes),
            size(one.largest_free_bytes),
            can_go,
            size(one.in_use_bytes),
            size(one.reserved_bytes),
            count(one.segments),
            # Stream numbers are long and wouldn't fit on the line in a narrow terminal.
            Place(
                f"{one.kind}, {pool_label(one.pool)}",
                note=stream_label(one.stream) if one.stream else "",
            ),
        )
    )


def _map(device: DeviceFragmentation) -> list[Block]:
    rows = tuple(_segment(segment) for segment in device.map)
    titles = ("free", "of", "blocks", "segment")
    found: list[Block] = [Table(titles, ("right", "right", "left", "left"), rows), Note(_MAP_KEY)]
    more = device.map_total - len(device.map)
    if more:
        shown = count(len(device.map))
        found.append(
            Note(
                f"the {shown} of {counted(device.map_total, 'segment')} with the most free memory"
                " (--top 0 shows all)"
            )
        )
    return found


def _segment(segment: MappedSegment) -> Row:
    kind = f"{segment.kind}, expandable" if segment.expandable else segment.kind
    where = f"{kind}, {place_text(segment.pool, segment.stream)}"
    return Row((size(segment.free_bytes), size(segment.reserved_bytes), segment.bar, where))
