"""Writes a peak report as a document for people."""

from __future__ import annotations

from memreplay.analysis.peak import part_label
from memreplay.model import By, DevicePeak, Frame, Group, Part, PeakReport
from memreplay.reports.document import (
    Below,
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
)
from memreplay.reports.operators import backward_of, operator_of
from memreplay.reports.reasons import reason_notes
from memreplay.reports.units import (
    count,
    counted,
    percent,
    range_words,
    signed_duration,
    size,
    time_utc,
)

_MAX_CALLERS = 3
_TITLES: dict[By, str] = {
    "stack": "allocated at, and its callers",
    "frame": "frame",
    "file": "file",
    "function": "function",
    "pool": "pool",
    "stream": "stream",
}


def peak_document(report: PeakReport) -> Document:
    """The file, then a section a device: when, how high, what was there before, who held it."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    for peak in report.devices:
        blocks += _section(peak, report)
    return tuple(blocks)


def _section(peak: DevicePeak, report: PeakReport) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(peak))]
    if is_idle(peak) and len(report.devices) > 1:
        return blocks
    blocks.append(Pairs(_pairs(peak, report)))
    if peak.peaks:
        blocks.append(_peaks_table(peak))
    if peak.parts:
        blocks.append(_parts_table(peak, report))
    elif peak.groups or peak.rest_count:
        rows = [_row(group, report) for group in peak.groups]
        if peak.groups_total > len(peak.groups):
            rows.append(_rest_row(peak))
        titles = ("bytes", "share", "count", _TITLES[report.by])
        blocks.append(Table(titles, ("right", "right", "right", "left"), tuple(rows)))
    said = frozenset(("no_events",))
    blocks += reason_notes(peak.reasons, trusted=peak.trusted, said=said)
    return blocks


def _peaks_table(peak: DevicePeak) -> Table:
    rows = tuple(
        Row((size(one.bytes), _event(one.event_index, peak), _when(one.time_us, peak)))
        for one in peak.peaks
    )
    return Table(("highest peaks", "event", "time"), ("right", "right", "left"), rows)


def _event(index: int, peak: DevicePeak) -> str:
    return "start" if index < peak.first_event else count(index)


def _when(time_us: int | None, peak: DevicePeak) -> str:
    if time_us is None or peak.start_us is None:
        return "-"
    return signed_duration(time_us - peak.start_us)


def _parts_table(peak: DevicePeak, report: PeakReport) -> Table:
    """Pools or streams: their share of the peak, and each one's own peaks."""
    if peak.measure == "reserved":
        return _reserved_table(peak, report)
    shown, more = _shown_parts(peak)
    rows = [
        Row(
            (
                size(part.bytes),
                percent(_share(part.bytes, peak)),
                count(part.count) if part.count else "-",
                size(part.peak_bytes),
                size(part.reserved_bytes),
                size(part.reserved_peak_bytes),
                Place(part_label(part, report.by)),
            )
        )
        for part in shown
    ]
    if more:
        share = percent(_share(peak.rest_bytes, peak))
        numbers = (size(peak.rest_bytes), share, count(peak.rest_count), "", "", "")
        rows.append(Row((*numbers, f"{more} more (--top 0)"), style="dim"))
    titles = ("bytes", "share", "count", "own peak", "reserved", "its peak", report.by)
    return Table(titles, (*("right",) * 6, "left"), tuple(rows))


def _reserved_table(peak: DevicePeak, report: PeakReport) -> Table:
    """Reserved memory has no count, and needs no further columns."""
    shown, more = _shown_parts(peak)
    rows = [
        Row(
            (
                size(part.bytes),
                percent(_share(part.bytes, peak)),
                size(part.peak_bytes),
                Place(part_label(part, report.by)),
            )
        )
        for part in shown
    ]
    if more:
        share = percent(_share(peak.rest_bytes, peak))
        words = f"{more} more (--top 0 shows all)"
        rows.append(Row((size(peak.rest_bytes), share, "", words), style="dim"))
    titles = ("bytes", "share", "own peak", report.by)
    return Table(titles, (*("right",) * 3, "left"), tuple(rows))


def _shown_parts(peak: DevicePeak) -> tuple[tuple[Part, ...], int]:
    """The parts that have a row, and how many that hold anything are left."""
    more = peak.groups_total - len(peak.groups)
    return (peak.parts[: len(peak.groups)] if more else peak.parts), more


def is_idle(peak: DevicePeak) -> bool:
    """Whether the device did nothing while others were recorded."""
    return peak.trace_events == 0 and "no_events" not in peak.reasons


def _headline(peak: DevicePeak) -> tuple[str, ...]:
    high = f"{size(peak.peak_bytes)} {peak.measure}"
    if peak.events == 0 and peak.trace_events:
        return (f"device {peak.device}: no events in this range; {high} there",)
    if is_idle(peak):
        # It has no rows below that would say it.
        high += " (estimated)" if peak.exactness == "estimated" else ""
        return (f"device {peak.device}: no events; {high} all along",)
    if peak.events == 0:
        return (f"device {peak.device}: no events were recorded; {high} in the final state",)
    high = f"device {peak.device}: peak {high}"
    if peak.event_index < peak.first_event:
        when = "time unknown" if peak.time_us is None else time_utc(peak.time_us)
        return (
            f"{high} at the start",
            f"before the first of {counted(peak.events, 'event')}",
            when,
        )
    where = f"{high} at event {count(peak.event_index)} of {count(peak.trace_events)}"
    if peak.time_us is None:
        return (where, "time unknown")
    if peak.start_us is None:
        return (where, time_utc(peak.time_us))
    return (where, f"{signed_duration(peak.time_us - peak.start_us)} ({time_utc(peak.time_us)})")


def _pairs(peak: DevicePeak, report: PeakReport) -> tuple[tuple[str, str], ...]:
    pairs = [("measure", f"{peak.measure}, {peak.exactness}")]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} alone"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} alone"))
    if peak.events < peak.trace_events:
        pairs.append(("range", range_words(peak.first_event, peak.events, peak.trace_events)))
    # At the start the peak is the baseline, and without events both are the final state.
    if peak.event_index >= peak.first_event:
        before = "before the range" if peak.first_event else "before the first event"
        baseline = f"{size(peak.baseline_bytes)} {before}"
        if peak.baseline_held_bytes:
            whole = peak.baseline_held_bytes == peak.baseline_bytes
            held = "all" if whole else size(peak.baseline_held_bytes)
            share = percent(_share(peak.baseline_held_bytes, peak))
            baseline += f", {held} of it in the peak ({share})"
        pairs.append(("baseline", baseline))
    if peak.events:
        pairs.append(("end", f"{size(peak.final_bytes)} after the last event"))
    when = " at the peak" if peak.events else ""
    if peak.measure != "reserved":
        pairs.append(("live", counted(peak.live_count, "block") + when))
    return tuple(pairs)


def _row(group: Group, report: PeakReport) -> Row:
    numbers = (size(group.bytes), percent(group.share), count(group.count))
    frames, user = group.frames, group.user
    if not frames:
        return Row((*numbers, Place(group.label)), style="dim")
    if report.by != "stack":
        return Row((*numbers, _place(frames[0])))
    if report.all_frames:
        chosen = frozenset(user)
        below: Below = tuple(
            (_place(frame), "plain" if index in chosen else "dim")
            for index, frame in enumerate(frames[1:], 1)
        )
        return Row((*numbers, _place(frames[0])), below)
    if not user:
        return _plumbing_row(numbers, group)
    place = _place(frames[user[0]], operator_of(frames[: user[0]]))
    callers: Below = tuple((_place(frames[index]), "dim") for index in user[1 : 1 + _MAX_CALLERS])
    return Row((*numbers, place), callers)


def _plumbing_row(numbers: tuple[str, ...], group: Group) -> Row:
    """A stack without code of the user's, as those of autograd's threads: name what ran instead."""
    frames = group.frames
    operator, node = operator_of(frames), backward_of(frames)
    if node:
        return Row((*numbers, Place(f"{node} (autograd)", note=operator)))
    if operator:
        return Row((*numbers, Place(f"{operator} (PyTorch's own)")))
    # The label is made of the frame that says most, which is rarely the innermost.
    said = (i for i, f in enumerate(frames) if f.function and group.label.startswith(f.function))
    at = next(said, 0)
    below: Below = tuple((_place(f), "dim") for f in frames[at + 1 : at + 1 + _MAX_CALLERS])
    return Row((*numbers, _place(frames[at])), below)


def _rest_row(peak: DevicePeak) -> Row:
    more = counted(peak.groups_total - len(peak.groups), "more group")
    share = percent(_share(peak.rest_bytes, peak))
    numbers = (size(peak.rest_bytes), share, count(peak.rest_count))
    return Row((*numbers, f"{more} (--top 0 shows all)"), style="dim")


def _share(n_bytes: int, peak: DevicePeak) -> float:
    return n_bytes / peak.peak_bytes if peak.peak_bytes else 0.0


def _place(frame: Frame, note: str = "") -> Place:
    # "??" is how the C++ unwinder says that it knows no file.
    file = "" if frame.file == "??" else frame.file
    unknown = "(C++, no file known)" if frame.file == "??" else "(no file known)"
    return Place(frame.function if frame.function or file else unknown, file, frame.line, note)
