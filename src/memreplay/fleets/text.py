"""Format a fleet's report as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.code.naming import name_of_stack, short_function
from memreplay.fleets.history_text import history_blocks
from memreplay.io.walking import Unlisted
from memreplay.render.document import (
    Align,
    Below,
    Block,
    Document,
    Heading,
    Level,
    Note,
    Pairs,
    Place,
    Row,
    Table,
)
from memreplay.render.holders import coded_row
from memreplay.render.kinds import category_words
from memreplay.render.places import in_place, place_text
from memreplay.render.ranks import rank_list_text
from memreplay.render.reasons import notes_of
from memreplay.render.simulations import NOT_EXACT
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    change_text,
    count,
    counted,
    known_size,
    percent,
    signed_size,
    size,
    sizes,
)

if TYPE_CHECKING:
    from memreplay.analysis.comparing.records import DiffRow
    from memreplay.analysis.comparing.spread import Spread
    from memreplay.fleets.result import (
        FleetCard,
        FleetChange,
        FleetDevice,
        FleetRank,
        FleetReport,
        Outlier,
        RankChange,
        RankGroup,
    )

_CODE = re.compile(r"(?P<function>\S+) (?P<file>.*[/\\].*):(?P<line>[0-9]{1,9})")
TOP = 20  # maximum number of ranks shown
GROUPS = 8  # maximum number of groups in the table
UNREAD = 10  # maximum number of unreadable files to list
_NUMBERED = {
    "pattern": "from --rank-pattern",
    "names": "from the file names",
    "recorder": "as noted by the recorder",
    "order": "in file-name order: the names contain no rank",
    "devices": "one row per device in the file",
}


def fleet_document(report: FleetReport, top: int = TOP) -> Document:
    """Build the report: spread, highest ranks, groups and outliers."""
    blocks: list[Block] = [
        Heading((_sources(report.input),)),
        Heading(headline(report)),
        Pairs(_pairs(report)),
    ]
    if report.worst:
        blocks.append(_worst(report))
    if len(report.groups) > 1:
        blocks.append(_groups(report))
    for outlier in report.outliers:
        blocks += outlier_blocks(outlier, noun_of(report))
    if report.history is not UNSET:
        blocks += history_blocks(report.history, top, noun_of(report))
    if report.against is not None:
        blocks += _against(report, report.against, top)
    unread = [one for one in report.ranks if one.status not in ("ok", "empty")]
    return (*blocks, *_unread(unread), *_notes(report))


def _sources(listed: str, note: str = "") -> Place:
    """Return the first source and the number of others, because a heading is a single line."""
    first, *others = listed.split(", ")
    more = f"and {len(others)} more" if others else ""
    return Place(file=first, note=f"{more} {note}".strip())


def noun_of(report: FleetReport) -> Literal["rank", "device"]:
    """Return what a row stands for, such as `rank`."""
    return "device" if report.rank_source == "devices" else "rank"


def headline(report: FleetReport) -> tuple[str, ...]:
    """Return phrases for the peak, failures and exactness."""
    noun = noun_of(report)
    ranks = counted(len(report.ranks), noun)
    if report.peak is None:
        return (f"{ranks}: no file was read",)
    peak = report.peak
    where = f"{report.measure} on {noun} {peak.max_rank}"
    phrases = [f"{ranks}: highest peak {size(peak.max_bytes)} {where}"]
    if peak.median_bytes:
        over = peak.max_bytes / peak.median_bytes - 1
        phrases.append(f"{percent(over)} over the median" if over else "the same on all")
    if report.out_of_memory:
        phrases.append(f"out of memory on {rank_list_text(report.out_of_memory, noun)}")
    return (*phrases, _exactness(report))


def _exactness(report: FleetReport) -> str:
    """Return `exact`, `exact for the final state` or `exact except on rank 3`."""
    noun = noun_of(report)
    labels = {
        one.rank: trust_label(one.devices[0])
        for one in report.ranks
        if one.devices and one.rank is not None
    }
    found = set(labels.values())
    if len(found) == 1:
        return found.pop()
    others = tuple(rank for rank, label in labels.items() if label != "exact")
    if "exact" in found:
        return f"exact except on {rank_list_text(others, noun)}"
    return report.exactness


def _pairs(report: FleetReport) -> tuple[tuple[str, str], ...]:
    noun = noun_of(report)
    pairs = [(f"{noun}s", _NUMBERED[report.rank_source])]
    if report.peak is not None:
        pairs.append(("peak", _spread(report.peak, noun)))
    if report.reserved is not None:
        pairs.append(("reserved", _spread(report.reserved, noun)))
    if report.headroom is not None:
        least = report.headroom
        pairs.append(("headroom", f"at least {size(least.min_bytes)}, on {noun} {least.min_rank}"))
    if report.imbalance is not None:
        over = "steps" if report.curve_by == "steps" else "time"
        words = f"{report.imbalance:.2f}: highest {noun} over the median, averaged over {over}"
        pairs.append(("imbalance", words))
    totals = sizes(*(card.total_memory_bytes for card in report.cards))
    for card, total in zip(report.cards, totals, strict=True):
        pairs.append((f"on {total}", _on_card(card, noun)))
    if report.outliers:
        odd = [one.rank for one in report.outliers]
        pairs.append(("outliers", f"{rank_list_text(odd, noun)} (see below)"))
    return tuple(pairs)


def _on_card(card: FleetCard, noun: str) -> str:
    about = "" if card.exactness == "exact" else f"{NOT_EXACT} "
    if not card.not_fitting:
        return f"{about}all fit"
    if not card.fitting:
        return f"{about}none fits"
    return f"{about}{_few_ranks(card.not_fitting, noun)} would run out of memory"


def _spread(found: Spread, noun: str) -> str:
    if found.min_bytes == found.max_bytes:
        return f"{size(found.max_bytes)} on all"
    return (
        f"{size(found.min_bytes)} ({noun} {found.min_rank}) to {size(found.max_bytes)} ({noun}"
        f" {found.max_rank}), median {size(found.median_bytes)}"
    )


def _worst(report: FleetReport) -> Table:
    by_rank = {one.rank: one for one in report.ranks}
    shown = [by_rank[rank] for rank in report.worst]
    rows = [_worst_row(one) for one in shown]
    told = sum(one.status == "ok" and one.rank is not None for one in report.ranks)
    if left := told - len(shown):
        words = f"{counted(left, f'more {noun_of(report)}')} (--top 0 shows all)"
        rows.append(Row(("", "", "", "", "", "", words), style="dim"))
    titles = (noun_of(report), "peak", "step", "reserved", "unused", "headroom", "largest category")
    kept = [at for at in range(len(titles)) if any(row.cells[at] for row in rows)]
    rows = [replace(row, cells=tuple(row.cells[at] for at in kept)) for row in rows]
    aligned: list[Align] = ["right"] * (len(kept) - 1)
    spare = tuple(kept.index(at) for at in (4, 2, 5) if at in kept)
    return Table(tuple(titles[at] for at in kept), (*aligned, "left"), tuple(rows), spare=spare)


def _worst_row(one: FleetRank) -> Row:
    own = one.devices[0]
    step = "" if own.step is None else f"{own.step.number} of {own.step.of}"
    headroom = "" if own.headroom_bytes is None else size(own.headroom_bytes)
    words = [word for word in (_unknown(one), _largest(own), *_remarks(one, own)) if word]
    others = _others(one)
    cells = (
        str(one.rank),
        size(own.peak_bytes),
        step,
        known_size(own.reserved_peak_bytes),
        known_size(own.unused_bytes),
        headroom,
        ", ".join(words),
    )
    below: Below = ((Place(others), "plain"),) if others else ()
    return Row(cells, below, "strong" if own.oom_count else "plain")


def _unknown(one: FleetRank) -> str:
    listed = ", ".join(map(str, one.unknown_devices or ()))
    return f"device {listed} unknown" if listed else ""


def _others(one: FleetRank) -> str:
    """Return text on a rank's other devices, such as `also 2.0 GiB on device 1`."""
    others = sorted(
        (other for other in one.devices[1:] if other.peak_bytes), key=lambda other: other.device
    )
    shown = ", ".join(f"{size(other.peak_bytes)} on device {other.device}" for other in others[:2])
    if (left := len(others) - 2) > 0:
        shown += f", {counted(left, 'more device')}"
    return f"also {shown}" if others else ""


def _largest(own: FleetDevice) -> str:
    if not own.categories or not own.peak_bytes:
        return ""
    first = own.categories[0]
    return f"{category_words(first.category)} {percent(first.bytes / own.peak_bytes)}"


def _remarks(one: FleetRank, own: FleetDevice) -> list[str]:
    found = []
    if own.oom_count:
        found.append(f"{counted(own.oom_count, 'request')} failed")
    if own.leak_bytes_per_step:
        found.append(f"leaks {size(own.leak_bytes_per_step)} a step")
    label = trust_label(own)
    if label != "exact":
        found.append(label)
    if one.truncated:
        found.append("cut off")
    return found


def _groups(report: FleetReport) -> Table:
    rows = [_group_row(one, noun_of(report)) for one in report.groups[:GROUPS]]
    if left := len(report.groups) - len(rows):
        rows.append(Row(("", "", f"{counted(left, 'more group')}"), style="dim"))
    titles = ("similar", "peak", "difference from the first row")
    return Table(titles, ("left", "right", "left"), tuple(rows))


def _group_row(one: RankGroup, noun: str) -> Row:
    peak = size(one.max_bytes)
    if one.min_bytes != one.max_bytes and size(one.min_bytes) != peak:
        peak = f"{size(one.min_bytes)} to {peak}"
    said = [
        (signed_size(change.new_bytes - change.base_bytes), place_of_holder(change.label))
        for change in one.differs[:3]
    ]
    return Row(
        (_few_ranks(one.rank_numbers, noun), peak, _changed_code(*said[0]) if said else ""),
        tuple((_changed_code(*words), "plain") for words in said[1:]),
    )


def place_of_holder(label: str) -> Place:
    """Return the location that labels a holder. The renderer can shorten it from the left."""
    if short := short_function(label):
        return Place(short)
    if found := _CODE.fullmatch(label):
        return Place(found["function"], found["file"], int(found["line"]))
    return Place(label)


def _changed_code(change: str, code: Place) -> Place:
    return replace(code, function=f"{change} {code.function}")


def _few_ranks(ranks: tuple[int, ...], noun: str) -> str:
    words = rank_list_text(ranks, noun)
    return words if len(words) <= 32 else f"{count(len(ranks))} {noun}s from {ranks[0]} on"


def compared_with(one: Outlier, noun: str = "rank") -> str:
    """Return text such as `+186.7 MiB compared with rank 4`."""
    return f"{signed_size(one.change_bytes)} compared with {noun} {one.typical_rank}"


def outlier_line(one: Outlier) -> str:
    """Describe an outlier in one line, with its largest change in the same direction."""
    words = f"rank {one.rank}: {size(one.peak_bytes)}, {compared_with(one)}"
    if not one.rows:
        return words
    first = next((row for row in one.rows if row.change_bytes * one.change_bytes > 0), one.rows[0])
    name = name_of_stack(first.frames, first.user) if first.frames else None
    where = in_place(place_text(name, first.label))
    return f"{words}; {signed_size(first.change_bytes)} {where}"


def outlier_blocks(one: Outlier, noun: str = "rank") -> list[Block]:
    """Format an outlier and the call sites that explain it."""
    head = Heading((f"{noun} {one.rank}: {size(one.peak_bytes)}", compared_with(one, noun)))
    if one.error:
        return [head, Note(f"can't compare them: {one.error}")]
    if not one.rows:
        return [head]
    return [head, _changes(one.rows, f"{noun} {one.typical_rank}", f"{noun} {one.rank}")]


def _changes(rows: tuple[DiffRow, ...], base: str, new: str) -> Table:
    titles = ("change", base, new, "allocated at, and its callers")
    return Table(titles, (*("right",) * 3, "left"), tuple(_change(row) for row in rows))


def _change(row: DiffRow) -> Row:
    numbers = (
        signed_size(row.change_bytes),
        size(row.base_bytes) if row.base_bytes or row.status != "new" else "-",
        size(row.new_bytes) if row.new_bytes or row.status != "gone" else "-",
    )
    return coded_row(numbers, row, "stack", all_frames=False)


def _against(report: FleetReport, found: FleetChange, top: int) -> list[Block]:
    blocks: list[Block] = [Heading((_sources(found.input, "(base)"),))]
    if found.peak is None or report.peak is None or found.change is None:
        return [
            *blocks,
            Note("no rank was read in both runs, so there is nothing to compare", "warning"),
        ]
    base, new = found.peak.max_bytes, report.peak.max_bytes
    sizes = f"{size(base)} -> {size(new)} {report.measure}"
    ranks = counted(len(found.ranks), "rank")
    blocks.append(Heading((f"{ranks}: highest peak {sizes}", change_text(base, new))))
    shown = found.ranks[:top] if top else found.ranks
    rows = [_rank_change(one) for one in shown]
    if left := len(found.ranks) - len(shown):
        words = f"{counted(left, 'more rank')} (--top 0 shows all)"
        rows.append(Row(("", "", "", words), style="dim"))
    titles = ("rank", "base", "new", "change")
    blocks.append(Table(titles, (*("right",) * 3, "left"), tuple(rows)))
    if found.told_rank is not None:
        blocks.append(Heading((f"rank {found.told_rank}: what changed",)))
        if found.error:
            blocks.append(Note(f"can't compare them: {found.error}"))
        if found.rows:
            blocks.append(_changes(found.rows, "base", "new"))
    for alone, where in ((found.only_base, found.input), (found.only_new, report.input)):
        if alone:
            verb = "is" if len(alone) == 1 else "are"
            blocks.append(Note(f"{rank_list_text(alone)} {verb} only in {where}, so not compared"))
    return blocks


def _rank_change(one: RankChange) -> Row:
    change = change_text(one.base_bytes, one.new_bytes)
    return Row((str(one.rank), size(one.base_bytes), size(one.new_bytes), change))


def _unread(unread: list[FleetRank]) -> list[Block]:
    """Return one or two lines per file with the full error."""
    blocks: list[Block] = [
        Note(
            f"{'not read' if one.rank is None else f'rank {one.rank} not read'}: {one.file}:"
            f" {one.error}",
            "warning",
        )
        for one in unread[:UNREAD]
    ]
    if left := len(unread) - len(blocks):
        blocks.append(Note(f"{counted(left, 'more file')} not read", "warning"))
    return blocks


def _notes(report: FleetReport) -> list[Note]:
    notes = [
        Note(f"{one.folder}: {Unlisted(one.folder, one.reason).words}", "warning")
        for one in report.unlisted_folders[:UNREAD]
    ]
    if left := len(report.unlisted_folders) - len(notes):
        notes.append(Note(f"{counted(left, 'more folder')} can't be listed", "warning"))
    if report.different_steps:
        words = f"the {noun_of(report)}s were dumped at different steps: {report.different_steps}"
        notes.append(Note(words, "warning"))
    if report.missing_ranks:
        notes.append(Note(f"no file for {rank_list_text(report.missing_ranks)}", "warning"))
    empty = [one.rank for one in report.ranks if one.status == "empty" and one.rank is not None]
    if empty:
        notes.append(Note(f"neither events nor segments in the file of {rank_list_text(empty)}"))
    unranked = sum(one.rank is None for one in report.ranks)
    if unranked:
        notes.append(Note(f"{counted(unranked, 'file')} without a rank in the name left out"))
    return notes + _reasons(report)


def _reasons(report: FleetReport) -> list[Note]:
    """Return why numbers may be wrong, listing each reason once for all ranks that it affects."""
    found: dict[tuple[str, Level], list[int]] = {}
    told = [one for one in report.ranks if one.devices and one.rank is not None]
    for one in told:
        own = one.devices[0]
        for note in notes_of(own):
            found.setdefault((note.text, note.level), []).append(one.rank or 0)
    noun = noun_of(report)
    return [
        Note(
            f"{f'all {noun}s' if len(ranks) == len(told) > 1 else rank_list_text(ranks, noun)}:"
            f" {text}",
            level,
        )
        for (text, level), ranks in found.items()
    ]
