"""Writes what all ranks of a fleet are together, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import UNSET

from memreplay.commands.diff.text import change_words
from memreplay.fleets.history_text import history_blocks
from memreplay.io.walking import Unlisted
from memreplay.render.document import (
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
from memreplay.render.ranks import ranks_words
from memreplay.render.reasons import notes_of
from memreplay.render.simulations import NOT_EXACT
from memreplay.render.trust import trust_label
from memreplay.render.units import count, counted, percent, signed_size, size, sizes

if TYPE_CHECKING:
    from memreplay.analysis.comparing.records import DiffRow
    from memreplay.commands.diff.ranks_result import Spread
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

TOP = 20  # ranks
GROUPS = 8  # that a table has
UNREAD = 10  # files that are named
_NUMBERED = {
    "pattern": "by --rank-pattern",
    "names": "by the files' names",
    "recorder": "as the recorder noted them",
    "order": "in the order of the names, which tell none",
    "devices": "the file's devices, a row each",
}


def fleet_document(report: FleetReport, top: int = TOP) -> Document:
    """How the ranks lie, the highest of them, which are alike, and what sets an odd one apart."""
    blocks: list[Block] = [
        Heading((Place(file=report.source),)),
        Heading(headline(report)),
        Pairs(_pairs(report)),
    ]
    if report.worst:
        blocks.append(_worst(report))
    if len(report.groups) > 1:
        blocks.append(_groups(report))
    for outlier in report.outliers:
        blocks += _outlier(outlier, noun_of(report))
    if report.history is not UNSET:
        blocks += history_blocks(report.history, top, noun_of(report))
    if report.against is not None:
        blocks += _against(report, report.against, top)
    unread = [one for one in report.ranks if one.status not in ("ok", "empty")]
    return (*blocks, *_unread(unread), *_notes(report))


def noun_of(report: FleetReport) -> Literal["rank", "device"]:
    """What a row is."""
    return "device" if report.rank_source == "devices" else "rank"


def headline(report: FleetReport) -> tuple[str, ...]:
    """How high they go, what failed, and whether that is exact: a phrase each."""
    noun = noun_of(report)
    ranks = counted(len(report.ranks), noun)
    if report.peak is None:
        return (f"{ranks}: nothing was read",)
    peak = report.peak
    where = f"{report.measure} on {noun} {peak.max_rank}"
    phrases = [f"{ranks}: highest peak {size(peak.max_bytes)} {where}"]
    if peak.median_bytes:
        over = peak.max_bytes / peak.median_bytes - 1
        phrases.append(f"{percent(over)} over the median" if over else "as all of them")
    if report.out_of_memory:
        phrases.append(f"out of memory on {ranks_words(report.out_of_memory, noun)}")
    return (*phrases, report.exactness)


def _pairs(report: FleetReport) -> tuple[tuple[str, str], ...]:
    noun = noun_of(report)
    pairs = [(f"{noun}s", _NUMBERED[report.rank_source])]
    if report.peak is not None:
        pairs.append(("peak", _spread(report.peak, noun)))
    if report.reserved is not None:
        pairs.append(("reserved", _spread(report.reserved, noun)))
    if report.headroom is not None:
        least = report.headroom
        pairs.append(("headroom", f"{size(least.min_bytes)} on {noun} {least.min_rank} at least"))
    if report.imbalance is not None:
        over = "over the steps" if report.curve_by == "steps" else "over time"
        words = f"{report.imbalance:.2f}, the highest {noun} by the median one, on average {over}"
        pairs.append(("imbalance", words))
    totals = sizes(*(card.total_bytes for card in report.cards))
    for card, total in zip(report.cards, totals, strict=True):
        pairs.append((f"on {total}", _on_card(card, noun)))
    if report.outliers:
        odd = [one.rank for one in report.outliers]
        pairs.append(("odd", f"{ranks_words(odd, noun)}, see below"))
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
    titles = (noun_of(report), "peak", "step", "reserved", "unused", "headroom", "most of it")
    return Table(titles, (*("right",) * 6, "left"), tuple(rows), spare=(4, 2, 5))


def _worst_row(one: FleetRank) -> Row:
    own = one.devices[0]
    step = "" if own.step is None else f"{own.step.number} of {own.step.of}"
    headroom = "" if own.headroom_bytes is None else size(own.headroom_bytes)
    words = [_unknown(one), _largest(own), _others(one), *_remarks(one, own)]
    cells = (
        str(one.rank),
        size(own.peak_bytes),
        step,
        size(own.reserved_peak_bytes),
        size(own.unused_bytes),
        headroom,
        ", ".join(word for word in words if word),
    )
    return Row(cells, style="strong" if own.ooms else "plain")


def _unknown(one: FleetRank) -> str:
    listed = ", ".join(map(str, one.unknown_devices or ()))
    return f"device {listed} unknown" if listed else ""


def _others(one: FleetRank) -> str:
    """`also 2.0 GiB on device 1`: that a rank's row is of one of its devices only."""
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
    return f"{first.category} {percent(first.bytes / own.peak_bytes)}"


def _remarks(one: FleetRank, own: FleetDevice) -> list[str]:
    found = []
    if own.ooms:
        found.append(f"{counted(own.ooms, 'request')} failed")
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
    titles = ("alike", "peak", "what sets them apart from the first")
    return Table(titles, ("left", "right", "left"), tuple(rows))


def _group_row(one: RankGroup, noun: str) -> Row:
    peak = size(one.max_bytes)
    if one.min_bytes != one.max_bytes and size(one.min_bytes) != peak:
        peak = f"{size(one.min_bytes)} to {peak}"
    said = [
        f"{signed_size(change.new_bytes - change.base_bytes)} {change.label}"
        for change in one.differs[:3]
    ]
    return Row(
        (_few_ranks(one.ranks, noun), peak, Place(said[0]) if said else ""),
        tuple((Place(words), "plain") for words in said[1:]),
    )


def _few_ranks(ranks: tuple[int, ...], noun: str) -> str:
    words = ranks_words(ranks, noun)
    return words if len(words) <= 32 else f"{count(len(ranks))} {noun}s from {ranks[0]} on"


def _outlier(one: Outlier, noun: str) -> list[Block]:
    change = f"{signed_size(one.change_bytes)} beside {noun} {one.typical_rank}"
    head = Heading((f"{noun} {one.rank}: {size(one.peak_bytes)}", change))
    if one.error:
        return [head, Note(f"what makes the difference could not be told: {one.error}")]
    if not one.rows:
        return [head]
    return [head, _changes(one.rows, f"{noun} {one.typical_rank}", f"{noun} {one.rank}")]


def _changes(rows: tuple[DiffRow, ...], base: str, new: str) -> Table:
    titles = ("change", base, new, "asked by")
    return Table(titles, (*("right",) * 3, "left"), tuple(_change(row) for row in rows))


def _change(row: DiffRow) -> Row:
    numbers = (
        signed_size(row.change_bytes),
        size(row.base_bytes) if row.base_bytes or row.status != "new" else "-",
        size(row.new_bytes) if row.new_bytes or row.status != "gone" else "-",
    )
    return coded_row(numbers, row, "stack", all_frames=False)


def _against(report: FleetReport, found: FleetChange, top: int) -> list[Block]:
    blocks: list[Block] = [Heading((Place(file=found.source, note="(base)"),))]
    if found.peak is None or report.peak is None or found.change is None:
        return [*blocks, Note("no rank was read in both, so nothing is compared", "warning")]
    base, new = found.peak.max_bytes, report.peak.max_bytes
    sizes = f"{size(base)} -> {size(new)} {report.measure}"
    ranks = counted(len(found.ranks), "rank")
    blocks.append(Heading((f"{ranks}: highest peak {sizes}", change_words(base, new))))
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
            blocks.append(Note(f"that could not be told: {found.error}"))
        if found.rows:
            blocks.append(_changes(found.rows, "base", "new"))
    for alone, where in ((found.only_base, found.source), (found.only_new, report.source)):
        if alone:
            verb = "is" if len(alone) == 1 else "are"
            blocks.append(Note(f"{ranks_words(alone)} {verb} only in {where}, and not compared"))
    return blocks


def _rank_change(one: RankChange) -> Row:
    change = change_words(one.base_bytes, one.new_bytes)
    return Row((str(one.rank), size(one.base_bytes), size(one.new_bytes), change))


def _unread(unread: list[FleetRank]) -> list[Block]:
    """A line or two each: what is wrong is said whole."""
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
        notes.append(Note(f"{counted(left, 'more folder')} cannot be listed", "warning"))
    if report.different_steps:
        words = f"the {noun_of(report)}s' dumps are of different steps: {report.different_steps}"
        notes.append(Note(words, "warning"))
    if report.missing_ranks:
        notes.append(Note(f"no file of {ranks_words(report.missing_ranks)}", "warning"))
    empty = [one.rank for one in report.ranks if one.status == "empty" and one.rank is not None]
    if empty:
        notes.append(Note(f"neither events nor segments in the file of {ranks_words(empty)}"))
    unranked = sum(one.rank is None for one in report.ranks)
    if unranked:
        notes.append(Note(f"{counted(unranked, 'file')} without a rank left out"))
    return notes + _reasons(report)


def _reasons(report: FleetReport) -> list[Note]:
    """What speaks against the numbers, once for all ranks that it is of."""
    found: dict[tuple[str, Level], list[int]] = {}
    told = [one for one in report.ranks if one.devices and one.rank is not None]
    for one in told:
        own = one.devices[0]
        for note in notes_of(own):
            found.setdefault((note.text, note.level), []).append(one.rank or 0)
    noun = noun_of(report)
    return [
        Note(
            f"{f'all {noun}s' if len(ranks) == len(told) > 1 else ranks_words(ranks, noun)}:"
            f" {text}",
            level,
        )
        for (text, level), ranks in found.items()
    ]
