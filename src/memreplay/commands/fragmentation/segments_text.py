"""Format segments over time, by the code that requested and released them."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.code.naming import name_of_stack
from memreplay.commands.fragmentation.segments_result import (
    ChangeGroup,
    DeviceSegments,
    SegmentChange,
    SegmentsReport,
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
from memreplay.render.holders import place_of
from memreplay.render.reasons import notes_of
from memreplay.render.units import count, counted, percent, signed_duration, signed_size, size
from memreplay.snapshot.model import Frame


def segments_document(report: SegmentsReport, *, top: int = 20, listed: bool = False) -> Document:
    """Build a section per device: reserved memory at the start, peak and end, and the code that
    reserved and released memory, in `top` rows each (0: all). With `listed`, show the largest
    changes one by one.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    blocks += device_blocks([_section(device, top, listed) for device in report.devices])
    return tuple(blocks)


def _section(device: DeviceSegments, top: int, listed: bool) -> list[Block]:
    when = f"at event {count(device.peak_event)}"
    if device.peak_event < device.first_event:
        when = "at the start"
    high = f"device {device.device}: peak {size(device.peak_bytes)} reserved {when}"
    start = f"{size(device.start_bytes)} in {counted(device.start_segments, 'segment')}"
    pairs = [("start", start), ("end", size(device.end_bytes))]
    changes = ", ".join(f"{name} {count(n)}" for name, n in device.actions.items())
    pairs.append(("changes", changes or "none"))
    blocks: list[Block] = [Heading((high,)), Pairs(tuple(pairs))]
    if listed:
        blocks += _listed(device)
    else:
        if device.peak_bytes:
            blocks.append(_peak_table(device, top))
        blocks += _changes_table(device.reserved_by, "reserved", "requested by", top)
        blocks += _changes_table(device.released_by, "released", "released by", top)
    blocks += notes_of(device)
    return blocks


def _listed(device: DeviceSegments) -> list[Block]:
    blocks: list[Block] = []
    if device.largest:
        blocks.append(_table(device))
    more = len(device.changes) - len(device.largest)
    if more:
        blocks.append(
            Note(
                f"the {count(len(device.largest))} largest of"
                f" {counted(len(device.changes), 'change')} (--top 0 shows all)"
            )
        )
    return blocks


def _peak_table(device: DeviceSegments, top: int) -> Table:
    """Build a table of the code that requested the memory reserved at the peak."""
    rows: dict[Place | str, list[int]] = {}
    for group in device.at_peak:
        frame = group.frames[0] if group.frames else None
        place = _named(frame, bool(group.user), group.frames) if frame else Place(group.label)
        row = rows.setdefault(place, [0, 0])
        row[0] += group.bytes
        row[1] += group.count
    order = sorted(rows.items(), key=lambda one: -one[1][0])
    shown = order[:top] if top else order
    whole = device.peak_bytes
    cells = [
        Row((size(n), percent(n / whole), count(segments), place)) for place, (n, segments) in shown
    ]
    if rest := order[len(shown) :]:
        left = sum(n for _, (n, _) in rest)
        segments = sum(segments for _, (_, segments) in rest)
        words = f"{count(len(rest))} more (--top 0 shows all)"
        cells.append(Row((size(left), percent(left / whole), count(segments), words), style="dim"))
    titles = ("at the peak", "share", "segments", "requested by")
    return Table(titles, (*("right",) * 3, "left"), tuple(cells))


def _changes_table(groups: tuple[ChangeGroup, ...], what: str, who: str, top: int) -> list[Block]:
    """Build a table of changes by location, merging rows that would look the same."""
    alike: dict[Place | str, list[ChangeGroup]] = {}
    for group in groups:
        place = "-" if group.frame is None else _named(group.frame, group.is_user, group.frames)
        alike.setdefault(place, []).append(group)
    order = sorted(alike.items(), key=lambda one: -sum(group.bytes for group in one[1]))
    shown = order[:top] if top else order
    rows = [_changes_row(some, place) for place, some in shown]
    if rest := [group for _, some in order[len(shown) :] for group in some]:
        words = f"{count(len(order) - len(shown))} more (--top 0 shows all)"
        rows.append(_changes_row(rest, words))
    titles = (what, "times", "each", "events", who)
    aligns = (*("right",) * 4, "left")
    return [Table(titles, aligns, tuple(rows), spare=(3, 2, 1))] if rows else []  # type: ignore[arg-type]


def _changes_row(some: list[ChangeGroup], place: Place | str) -> Row:
    least, most = min(one.least_bytes for one in some), max(one.most_bytes for one in some)
    first, last = min(one.first_event for one in some), max(one.last_event for one in some)
    return Row(
        (
            size(sum(one.bytes for one in some)),
            count(sum(one.count for one in some)),
            size(most) if least == most else _sizes(least, most),
            count(first) if first == last else f"{count(first)} to {count(last)}",
            place,
        )
    )


def _table(device: DeviceSegments) -> Table:
    titles = ("event", "time", "change", "reserved", "", "pool", "requested by")
    rows = tuple(_row(change, device) for change in device.largest)
    return Table(titles, (*("right",) * 4, *("left",) * 3), rows, spare=(5, 1, 3))


def _row(change: SegmentChange, device: DeviceSegments) -> Row:
    time = "-"
    if change.time_us is not None and device.start_us is not None:
        time = signed_duration(change.time_us - device.start_us)
    pool = "-" if change.pool is None else f"{change.pool[0]}:{change.pool[1]}"
    return Row(
        (
            count(change.event_index),
            time,
            signed_size(change.bytes),
            size(change.reserved_bytes),
            change.action.removeprefix("segment_"),
            pool,
            _place(change),
        )
    )


def _sizes(least: int, most: int) -> str:
    """Return text such as `98.0 to 100.0 MiB`, with the unit only once if both sizes have the same
    unit.
    """
    low, high = size(least), size(most)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(' ' + unit) else low} to {high}"


def _place(change: SegmentChange) -> Place | str:
    if change.frame is None:
        return "-"
    return _named(change.frame, change.is_user, change.frames)


def _named(place: Frame, is_user: bool, frames: tuple[Frame, ...]) -> Place:
    """Return the user's code. If there's none, return what ran, because autograd's threads don't
    run user code.
    """
    return (
        place_of(place)
        if is_user
        else replace(Place.of(name_of_stack(frames, ())), note="", source="")
    )
