"""Format a diff of two snapshots as text."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.categories.rules import NOT_TOLD_APART
from memreplay.analysis.code.naming import name_of_stack
from memreplay.analysis.code.plumbing import shown_frame
from memreplay.analysis.comparing.records import CategoryChange, DiffRow, Side, Status
from memreplay.analysis.comparing.sides import PHASE_WORDS
from memreplay.analysis.groups.ways import noun_of, title_of
from memreplay.analysis.groups.ways.base import BEFORE_RECORDING
from memreplay.analysis.trust.trust import NOT_RECORDED
from memreplay.commands.at.text import when_text
from memreplay.commands.diff.result import DeviceDiff, DiffReport, PhaseDiff
from memreplay.render.document import (
    Below,
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
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.frames import fewer_text
from memreplay.render.holders import coded_row, distinguish_rows
from memreplay.render.places import in_place, place_text
from memreplay.render.ranges import ranges_text
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import change_text, count, counted, signed_count, signed_size, size
from memreplay.render.where import where_text
from memreplay.snapshot.model import By, Frame, When

GUESSED = (
    "groups are guessed in both files, because only one was recorded with"
    " memreplay record, which notes what each allocation is for"
)
UNTOLD = (
    "one file doesn't say what its carried-over memory is for, so categories may differ even if the"
    " program is the same; record from the start to compare them"
)
LEAST_OF_THE_CHANGE = 0.02  # minimum share of the change for which the first line names a category
_ORDER: tuple[Status, ...] = ("grew", "shrank", "new", "gone", "same")


def diff_document(report: DiffReport) -> Document:
    """Build a line about both files, then a section per device with its change and the code behind
    it.
    """
    blocks: list[Block] = [
        Heading((Place(file=report.base_file, note="(base)"),)),
        Heading((Place(file=report.new_file, note="(new)"),)),
    ]
    blocks += device_blocks([device_section(device, report) for device in report.devices])
    if report.mixed:
        blocks.append(Note(GUESSED))
    if report.fewer:
        blocks.append(Note(fewer_text(report.fewer, report.stack_frames)))
    if report.ranges is not None:
        blocks.append(
            Note(f"{ranges_text(*report.ranges)}, so different events are compared", "warning")
        )
    for devices, file in ((report.only_base, report.base_file), (report.only_new, report.new_file)):
        if devices:
            names = "device " + ", ".join(map(str, devices))
            blocks.append(Note(f"{names} is only in {file}, so not compared"))
    return tuple(blocks)


def device_section(found: DeviceDiff, report: DiffReport) -> list[Block]:
    """Format a device's change, the code behind it, and doubts."""
    blocks = change_blocks(found, report, device_text(found.base_device, found.device))
    base, new = notes_of(found.base), notes_of(found.new)
    both = [note for note in base if note in new]
    for name, notes in (("base and new", both), ("base", base), ("new", new)):
        only = notes if notes is both else [note for note in notes if note not in both]
        blocks += [Note(f"{name}: {note.text}", note.level) for note in only]
    return blocks


def device_text(base: int, new: int) -> str:
    """Return text such as `device 0` or `device 0 -> device 3`."""
    return f"device {new}" if base == new else f"device {base} -> device {new}"


def change_blocks(found: DeviceDiff, report: DiffReport, name: str) -> list[Block]:
    """Format one device's change: a heading, the changed groups, and notes."""
    pairs = (*_pairs(found), *filter_pairs(report.filters))
    blocks: list[Block] = [Heading(_headline(found, report, name)), Pairs(pairs)]
    if report.filters and not (found.base.count or found.new.count):
        blocks.append(Note(NOTHING_LEFT))
    elif found.rows:
        blocks.append(_table(found, report))
    else:
        blocks.append(Note("no group changed"))
    blocks += _phase_blocks(found, report)
    late = [row for row in found.rows if row.label == BEFORE_RECORDING and row.change_bytes]
    if late and found.statuses.get("gone" if late[0].change_bytes > 0 else "new"):
        blocks.append(Note(late_text(late[0], report)))
    if any(row.label == NOT_TOLD_APART and row.change_bytes for row in found.rows):
        blocks.append(Note(UNTOLD))
    return blocks


def _phase_blocks(found: DeviceDiff, report: DiffReport) -> list[Block]:
    """Format the peaks in each phase or, if the overall peaks are in different phases, the changes
    in both phases.
    """
    if len(found.phases) < 2:
        return []
    rows = [
        Row(
            (
                "" if one.change_bytes is None else signed_size(one.change_bytes),
                "-" if one.base_bytes is None else size(one.base_bytes),
                "-" if one.new_bytes is None else size(one.new_bytes),
                PHASE_WORDS[one.phase],
            )
        )
        for one in found.phases
    ]
    titles = ("change", "base", "new", "peak within")
    blocks: list[Block] = [Table(titles, (*("right",) * 3, "left"), tuple(rows))]
    for one in found.phases:
        if one.rows and one.base_bytes is not None and one.new_bytes is not None:
            sizes = f"{size(one.base_bytes)} -> {size(one.new_bytes)} {found.measure}"
            change = change_text(one.base_bytes, one.new_bytes)
            words = f"within the {PHASE_WORDS[one.phase]}: {sizes}"
            blocks += [Heading((words, change)), _table(one, report)]
    return blocks


def late_text(row: DiffRow, report: DiffReport) -> str:
    """Note that one side was recorded later than the other."""
    file = report.new_file if row.change_bytes > 0 else report.base_file
    return (
        f"{size(abs(row.change_bytes))} more of {file} was allocated before its recording began and"
        " has no stack; rows of the other file that have no match may be the same memory (--by"
        " category matches them)"
    )


def _headline(found: DeviceDiff, report: DiffReport, name: str) -> tuple[str, ...]:
    what = "peak" if is_peak(report.moment) else f"at {when_text(report.moment)}"
    if is_peak(report.moment) and all(map(_is_of_the_end, (found.base, found.new))):
        what = "at the end"  # only the final state is known, so no number is a maximum
    sizes = f"{size(found.base.bytes)} -> {size(found.new.bytes)} {found.measure}"
    change = change_text(found.base.bytes, found.new.bytes)
    return (f"{name}: {what} {sizes}", change, *_phases_text(found), *_category_text(found))


def _category_text(found: DeviceDiff) -> tuple[str, ...]:
    """Describe the category that grew most, with text such as `+230.6 MiB weights (cast) (+96.0 MiB
    in linear model.py:43, 2 rows)`. If the total shrank, the category that shrank most comes first.
    Small changes are left out.
    """
    if any(one.category == NOT_TOLD_APART for one in found.categories):
        return ()  # carried-over memory has a different category on one side
    grown = next((one for one in found.categories if one.change_bytes > 0), None)
    shrunk = next((one for one in found.categories if one.change_bytes < 0), None)
    total = found.new.bytes - found.base.bytes
    told = (shrunk, grown) if total < 0 else (grown,)
    return tuple(
        _one_category(one, found)
        for one in told
        if one is not None and abs(one.change_bytes) > LEAST_OF_THE_CHANGE * abs(total)
    )


def _one_category(one: CategoryChange, found: DeviceDiff) -> str:
    words = f"{signed_size(one.change_bytes)} {one.category}"
    if one.line_change_bytes is None:
        return words
    name = name_of_stack(one.frames, one.user) if one.frames else None
    where = in_place(place_text(name, one.label))
    several = _rows_text(one, found)
    if one.line_change_bytes == one.change_bytes:
        return f"{words} {where}" + (f" ({several})" if several else "")
    return f"{words} ({signed_size(one.line_change_bytes)} {where}{several and f', {several}'})"


def _rows_text(one: CategoryChange, found: DeviceDiff) -> str:
    """Return how many rows a line has, such as `2 rows`, because rows are split by operator. Empty
    for a single row, which needs no explanation.
    """
    if not one.frames:
        return ""
    line = one.frames[shown_frame(one.frames, one.user)]
    rows = [row for row in found.rows if row.frames and _line_of(row) == line and not row.of]
    if len(rows) > 1:
        return counted(len(rows), "row")
    left_out = found.rows_total > len(found.rows)
    is_whole = not rows or rows[0].change_bytes == one.line_change_bytes
    return "several rows" if left_out and not is_whole else ""


def _line_of(row: DiffRow) -> Frame:
    return row.frames[shown_frame(row.frames, row.user)]


def _phases_text(found: DeviceDiff) -> tuple[str, ...]:
    """Describe each peak's phase, with text such as `both in the backward pass`, or two texts if
    the phases differ. Empty if both peaks are between steps.
    """
    base, new = (
        f"in the {PHASE_WORDS[one.phase]}" if one.phase else "outside all phases"
        for one in (found.base, found.new)
    )
    if found.base.phase == found.new.phase:
        return (f"both {base}",) if found.base.phase else ()
    return (f"base {base}", f"new {new}")


def is_peak(when: When) -> bool:
    """Return whether a moment is the peak, which is the default."""
    return when.kind == "peak" and when.value == 1


def _pairs(found: DeviceDiff) -> tuple[tuple[str, str], ...]:
    groups = [
        f"{count(found.statuses[status])} {status}"
        for status in _ORDER
        if found.statuses.get(status)
    ]
    return (
        ("measure", f"{found.measure}, {_exactness(found)}"),
        ("base", _where(found.base)),
        ("new", _where(found.new)),
        ("groups", ", ".join(groups) or "none"),
    )


def _exactness(found: DeviceDiff) -> str:
    both = trust_label(found.base), trust_label(found.new)
    return both[0] if both[0] == both[1] else f"{both[0]} in base, {both[1]} in new"


def _is_of_the_end(side: Side) -> bool:
    """Return whether only the final state is known."""
    return bool(NOT_RECORDED.intersection(side.reasons))


def _where(side: Side) -> str:
    at = "the start" if side.event_index < 0 else f"event {count(side.event_index)}"
    at = "the end" if _is_of_the_end(side) else at
    place = where_text(side.step, [side.annotation] if side.annotation else [])
    words = f"{size(side.bytes)} in {counted(side.count, 'block')} at {at}"
    return f"{words}, {place}" if place else words


def _table(found: DeviceDiff | PhaseDiff, report: DiffReport) -> Table:
    rows = distinguish_rows([_row(row, report) for row in found.rows], found.rows)
    left = found.rows_total - len(found.rows)
    if left:
        words = f"{counted(left, 'more group')} (--top 0 shows all)"
        rows.append(Row((signed_size(found.rest_change_bytes), "", "", "", "", words), style="dim"))
    titles = ("change", "base", "new", "count", "", title_of(report.by))
    return Table(titles, (*("right",) * 4, "left", "left"), tuple(rows), spare=(3,))


def _row(row: DiffRow, report: DiffReport) -> Row:
    numbers = (
        signed_size(row.change_bytes),
        size(row.base_bytes) if row.base_bytes or row.status != "new" else "-",
        size(row.new_bytes) if row.new_bytes or row.status != "gone" else "-",
        signed_count(row.new_count - row.base_count),
        row.status,
    )
    shown = coded_row(numbers, row, report.by, all_frames=report.all_frames)
    return replace(shown, below=(*shown.below, *_merged(row, report.by)))


def _merged(row: DiffRow, by: By) -> Below:
    """Describe how many groups a row merges, and whether the row is about the frame's callees."""
    words = ["partly guessed"] if row.guessed else []
    if row.below and row.frames:
        words.append("in its callees")
    if row.frames and max(row.base_groups, row.new_groups) > 1:
        what = noun_of(by)
        if row.base_groups and row.new_groups and row.base_groups != row.new_groups:
            words.append(f"{count(row.base_groups)} -> {counted(row.new_groups, what)}")
        else:
            words.append(counted(max(row.base_groups, row.new_groups), what))
    return ((Place(f"({', '.join(words)})"), "dim"),) if words else ()
