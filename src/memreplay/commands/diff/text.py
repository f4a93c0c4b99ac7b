"""Writes a diff of two snapshots as a document for people."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.categories.rules import NOT_TOLD_APART
from memreplay.analysis.code.naming import name_of_stack
from memreplay.analysis.comparing.records import CategoryChange, DiffRow, Side, Status
from memreplay.analysis.comparing.sides import PHASE_WORDS
from memreplay.analysis.groups.ways import noun_of, title_of
from memreplay.analysis.groups.ways.base import BEFORE_RECORDING
from memreplay.commands.at.text import when_words
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
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.frames import fewer_words
from memreplay.render.holders import coded_row, told_apart
from memreplay.render.places import in_place, place_words
from memreplay.render.ranges import ranges_words
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import count, counted, percent, signed_count, signed_size, size
from memreplay.render.where import where_words
from memreplay.snapshot.model import By, When

GUESSED = (
    "groups are guessed in both: memreplay record recorded one of the two alone, and noted there"
    " what each allocation is for"
)
UNTOLD = (
    "one of the two doesn't tell apart what was there before its recording began, so categories may"
    " differ although the program is the same; record from the start to compare them"
)
LEAST_OF_THE_CHANGE = 0.02  # for a category to be in the first line
_ORDER: tuple[Status, ...] = ("grew", "shrank", "new", "gone", "same")


def diff_document(report: DiffReport) -> Document:
    """Both files, then a section a device: the change, and which code it is in."""
    blocks: list[Block] = [
        Heading((Place(file=report.base_file, note="(base)"),)),
        Heading((Place(file=report.new_file, note="(new)"),)),
    ]
    for device in report.devices:
        blocks += device_section(device, report)
    if report.mixed:
        blocks.append(Note(GUESSED))
    if report.fewer:
        blocks.append(Note(fewer_words(report.fewer, report.frames)))
    if report.ranges is not None:
        blocks.append(
            Note(f"{ranges_words(*report.ranges)}, so different events are compared", "warning")
        )
    for devices, file in ((report.only_base, report.base_file), (report.only_new, report.new_file)):
        if devices:
            names = "device " + ", ".join(map(str, devices))
            blocks.append(Note(f"{names} is only in {file}, and not compared"))
    return tuple(blocks)


def device_section(found: DeviceDiff, report: DiffReport) -> list[Block]:
    """A device: its change, which code it is in, and what speaks against the numbers."""
    blocks = change_blocks(found, report, device_words(found.base_device, found.device))
    for name, side in (("base", found.base), ("new", found.new)):
        notes = notes_of(side)
        blocks += [Note(f"{name}: {note.text}", note.level) for note in notes]
    return blocks


def device_words(base: int, new: int) -> str:
    """`device 0`, `device 0 -> device 3`."""
    return f"device {new}" if base == new else f"device {base} -> device {new}"


def change_blocks(found: DeviceDiff, report: DiffReport, name: str) -> list[Block]:
    """The change of what is called `name`, and which code it is in."""
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
        blocks.append(Note(late_words(late[0], report)))
    if any(row.label == NOT_TOLD_APART and row.change_bytes for row in found.rows):
        blocks.append(Note(UNTOLD))
    return blocks


def _phase_blocks(found: DeviceDiff, report: DiffReport) -> list[Block]:
    """The peaks within each phase of the steps; and if the peaks are in different phases, what
    changed within each of the two."""
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
            change = change_words(one.base_bytes, one.new_bytes)
            words = f"within the {PHASE_WORDS[one.phase]}: {sizes}"
            blocks += [Heading((words, change)), _table(one, report)]
    return blocks


def late_words(row: DiffRow, report: DiffReport) -> str:
    """The note on a side that was recorded later than the other."""
    file = report.new_file if row.change_bytes > 0 else report.base_file
    return (
        f"{size(abs(row.change_bytes))} more of {file} was allocated before its recording began and"
        " has no stack; rows of the other file that have no match may be the same memory (--by"
        " category matches them)"
    )


def _headline(found: DeviceDiff, report: DiffReport, name: str) -> tuple[str, ...]:
    what = "peak" if is_peak(report.moment) else when_words(report.moment)
    sizes = f"{size(found.base.bytes)} -> {size(found.new.bytes)} {found.measure}"
    change = change_words(found.base.bytes, found.new.bytes)
    return (f"{name}: {what} {sizes}", change, *_phases_words(found), *_category_words(found))


def _category_words(found: DeviceDiff) -> tuple[str, ...]:
    """`+230.6 MiB weights (cast) (+96.0 MiB in linear model.py:43)`: the category that grew most,
    and first the one that shrank most if the whole did; not those that are a small part."""
    if any(one.category == NOT_TOLD_APART for one in found.categories):
        return ()  # what was there before is another category in one of the two
    grown = next((one for one in found.categories if one.change_bytes > 0), None)
    shrunk = next((one for one in found.categories if one.change_bytes < 0), None)
    total = found.new.bytes - found.base.bytes
    told = (shrunk, grown) if total < 0 else (grown,)
    return tuple(
        _one_category(one)
        for one in told
        if one is not None and abs(one.change_bytes) > LEAST_OF_THE_CHANGE * abs(total)
    )


def _one_category(one: CategoryChange) -> str:
    words = f"{signed_size(one.change_bytes)} {one.category}"
    if one.line_change_bytes is None:
        return words
    name = name_of_stack(one.frames, one.user) if one.frames else None
    where = in_place(place_words(name, one.label))
    if one.line_change_bytes == one.change_bytes:
        return f"{words} {where}"
    return f"{words} ({signed_size(one.line_change_bytes)} {where})"


def _phases_words(found: DeviceDiff) -> tuple[str, ...]:
    """`both in the backward pass`; `base in the backward pass`, `new in the optimizer step`;
    nothing if neither is in a phase."""
    base, new = (
        f"in the {PHASE_WORDS[one.phase]}" if one.phase else "outside of the passes"
        for one in (found.base, found.new)
    )
    if found.base.phase == found.new.phase:
        return (f"both {base}",) if found.base.phase else ()
    return (f"base {base}", f"new {new}")


def is_peak(when: When) -> bool:
    """Whether this moment is what a report is of unless it is told otherwise."""
    return when.kind == "peak" and when.value == 1


def change_words(base_bytes: int, new_bytes: int) -> str:
    """`+355.7 MiB (+6.8%)`."""
    change = new_bytes - base_bytes
    words = signed_size(change)
    if base_bytes and change:
        words += f" ({'+' if change > 0 else '-'}{percent(abs(change) / base_bytes)})"
    return words


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


def _where(side: Side) -> str:
    at = "the start" if side.event_index < 0 else f"event {count(side.event_index)}"
    place = where_words(side.step, [side.annotation] if side.annotation else [])
    words = f"{size(side.bytes)} in {counted(side.count, 'block')} at {at}"
    return f"{words}, {place}" if place else words


def _table(found: DeviceDiff | PhaseDiff, report: DiffReport) -> Table:
    rows = told_apart([_row(row, report) for row in found.rows], found.rows)
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
    """Of how many groups a row is, where it is of several, and whether of what it calls."""
    words = ["partly guessed"] if row.guessed else []
    if row.below and row.frames:
        words.append("in what it calls")
    if row.frames and max(row.base_groups, row.new_groups) > 1:
        what = noun_of(by)
        if row.base_groups and row.new_groups and row.base_groups != row.new_groups:
            words.append(f"{count(row.base_groups)} -> {counted(row.new_groups, what)}")
        else:
            words.append(counted(max(row.base_groups, row.new_groups), what))
    return ((Place(f"({', '.join(words)})"), "dim"),) if words else ()
