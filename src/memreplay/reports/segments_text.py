"""Writes the segments over time as a document for people."""

from __future__ import annotations

from memreplay.reports.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.reports.operators import backward_of, operator_of
from memreplay.reports.reasons import reason_notes
from memreplay.reports.units import count, counted, signed_duration, signed_size, size
from memreplay.results.segments import DeviceSegments, SegmentChange, SegmentsReport


def segments_document(report: SegmentsReport) -> Document:
    """A section a device: how much at the start, the peak and the end, and the largest changes."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    for device in report.devices:
        blocks += _section(device)
    return tuple(blocks)


def _section(device: DeviceSegments) -> list[Block]:
    when = f"at event {count(device.event_index)}"
    if device.event_index < device.first_event:
        when = "at the start"
    high = f"device {device.device}: peak {size(device.peak_bytes)} reserved {when}"
    start = f"{size(device.start_bytes)} in {counted(device.start_segments, 'segment')}"
    pairs = [("start", start), ("end", size(device.final_bytes))]
    changes = ", ".join(f"{name} {count(n)}" for name, n in device.actions.items())
    pairs.append(("changes", changes or "none"))
    blocks: list[Block] = [Heading((high,)), Pairs(tuple(pairs))]
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
    blocks += reason_notes(device.reasons, trusted=device.trusted)
    return blocks


def _table(device: DeviceSegments) -> Table:
    titles = ("event", "time", "change", "reserved", "", "pool", "asked for by")
    rows = tuple(_row(change, device) for change in device.largest)
    return Table(titles, (*("right",) * 4, *("left",) * 3), rows)


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


def _place(change: SegmentChange) -> Place | str:
    """The user's code; else what ran: no Python code of the user's is on autograd's threads."""
    if change.place is None:
        return "-"
    if not change.is_user:
        if node := backward_of(change.frames):
            return Place(f"{node} (autograd)")
        if operator := operator_of(change.frames):
            return Place(f"{operator} (PyTorch's own)")
    file = "" if change.place.file == "??" else change.place.file
    return Place(change.place.function, file, change.place.line)
