"""Writes a diff of two folders, rank by rank, as a document for people."""

from __future__ import annotations

from memreplay.commands.at.text import when_words
from memreplay.commands.diff.ranks_result import RankDiff, RanksReport, Spread
from memreplay.commands.diff.text import change_blocks, change_words, device_words, is_peak
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
from memreplay.render.filters import filter_pairs
from memreplay.render.ranks import ranks_words
from memreplay.render.reasons import notes_of
from memreplay.render.units import counted, percent, signed_size, size

_NAMES = 3  # files that a note lists


def ranks_document(report: RanksReport, top: int = 20) -> Document:
    """Both folders, how the ranks lie, the highest of them, then the groups of one."""
    blocks: list[Block] = [
        Heading((Place(file=report.base_folder, note="(base)"),)),
        Heading((Place(file=report.new_folder, note="(new)"),)),
        Heading(_headline(report)),
        Pairs(_pairs(report)),
        _spread_table(report),
        _table(report, top),
        *_notes(report),
    ]
    if report.detail is not None:
        detail = report.detail
        blocks.append(Heading((Place(file=detail.base_file, note="(base)"),)))
        blocks.append(Heading((Place(file=detail.new_file, note="(new)"),)))
        for device in detail.devices:
            devices = device_words(device.base_device, device.device)
            name = f"rank {report.detail_rank}, {devices}"
            blocks += change_blocks(device, detail, name)
    return tuple(blocks)


def _headline(report: RanksReport) -> tuple[str, ...]:
    ranks = counted(len(report.ranks), "rank")
    start = f"{ranks}: highest peak"
    if not is_peak(report.moment):
        start = f"{ranks} at {when_words(report.moment)}: highest"
    base, new = report.base.max_bytes, report.new.max_bytes
    return (f"{start} {size(base)} -> {size(new)} {report.measure}", change_words(base, new))


def _pairs(report: RanksReport) -> tuple[tuple[str, str], ...]:
    measure = f"{report.measure}, {_exactness(report)}"
    return (("measure", measure), *_most(report), *filter_pairs(report.filters))


def _most(report: RanksReport) -> list[tuple[str, str]]:
    """The ranks that changed most, in the directions that there are."""
    change = report.change
    found = []
    if change.max_bytes > 0:
        found.append(("grew most", _changed(report, change.max_rank)))
    if change.min_bytes < 0:
        found.append(("shrank most", _changed(report, change.min_rank)))
    return found or [("change", "none, in any rank")]


def _changed(report: RanksReport, rank: int) -> str:
    one = next(one for one in report.ranks if one.rank == rank)
    sizes = f"{size(one.base.bytes)} -> {size(one.new.bytes)}"
    return f"rank {rank}, {sizes}, {change_words(one.base.bytes, one.new.bytes)}"


def _exactness(report: RanksReport) -> str:
    estimated = _estimated(report)
    if not estimated:
        return "exact"
    if len(estimated) == len(report.ranks):
        return "estimated"
    return f"exact except in {ranks_words(estimated)}"


def _estimated(report: RanksReport) -> list[int]:
    """The ranks that are not exact in both runs."""
    return [
        one.rank for one in report.ranks if "estimated" in (one.base.exactness, one.new.exactness)
    ]


def _spread_table(report: RanksReport) -> Table:
    """How the ranks lie in each run; the runs' worst may be of different ranks."""
    base, new = report.base, report.new
    rows = [
        _spread_row("worst", base.max_bytes, new.max_bytes, _whose(base.max_rank, new.max_rank)),
        _spread_row(
            "median",
            base.median_bytes,
            new.median_bytes,
            f"median change {signed_size(report.change.median_bytes)}",
        ),
        _spread_row("lowest", base.min_bytes, new.min_bytes, _whose(base.min_rank, new.min_rank)),
        Row(("imbalance", _times(base), _times(new), "", "worst by median")),
        _spread_row("sum", base.sum_bytes, new.sum_bytes, ""),
    ]
    titles = ("ranks", "base", "new", "change", "")
    return Table(titles, ("left", *("right",) * 3, "left"), tuple(rows))


def _spread_row(name: str, base: int, new: int, words: str) -> Row:
    return Row((name, size(base), size(new), signed_size(new - base), words))


def _whose(base_rank: int, new_rank: int) -> str:
    if base_rank == new_rank:
        return f"rank {new_rank}"
    return f"rank {new_rank} (base: rank {base_rank})"


def _times(spread: Spread) -> str:
    return f"{spread.imbalance:.2f}" if spread.imbalance else "-"


def _table(report: RanksReport, top: int) -> Table:
    """The highest ranks."""
    ranks = sorted(report.ranks, key=lambda one: (-one.new.bytes, one.rank))
    shown = ranks[:top] if top else ranks
    estimated = frozenset(_estimated(report))
    if len(estimated) == len(report.ranks):
        estimated = frozenset()  # said above
    rows = [Row(_cells(one, report, one.rank in estimated)) for one in shown]
    left = ranks[len(shown) :]
    if left:
        words = f"{counted(len(left), 'more rank')} (--top 0 shows all)"
        rows.append(Row(("", "", "", "", "", "", words), style="dim"))
    titles = ("rank", "device", "base", "new", "change", "", "")
    return Table(titles, (*("right",) * 6, "left"), tuple(rows), spare=(1, 5))


def _cells(one: RankDiff, report: RanksReport, estimated: bool) -> tuple[str, ...]:
    change = one.change_bytes
    share = ""
    if one.base.bytes and change:
        share = f"{'+' if change > 0 else '-'}{percent(abs(change) / one.base.bytes)}"
    said = [
        ("worst", one.rank == report.new.max_rank),
        ("grew most", change > 0 and one.rank == report.change.max_rank),
        ("shrank most", change < 0 and one.rank == report.change.min_rank),
        ("estimated", estimated),
    ]
    return (
        str(one.rank),
        _devices(one),
        size(one.base.bytes),
        size(one.new.bytes),
        signed_size(change),
        share,
        ", ".join(words for words, so in said if so),
    )


def _devices(one: RankDiff) -> str:
    base, new = one.base.device, one.new.device
    return str(new) if base == new else f"{base} -> {new}"


def _notes(report: RanksReport) -> list[Note]:
    """What is not compared, then what speaks against the numbers: each once, with its ranks."""
    notes = [
        Note(f"{_subject(ranks)} only in {folder}, and not compared")
        for ranks, folder in (
            (report.only_base, report.base_folder),
            (report.only_new, report.new_folder),
        )
        if ranks
    ]
    if report.not_read:
        words = ranks_words(report.not_read)
        notes.append(Note(f"{words} could not be compared: the errors say why", "warning"))
    if report.unranked_files:
        names = ", ".join(report.unranked_files[:_NAMES])
        more = len(report.unranked_files) - _NAMES
        names += f" and {more} more" if more > 0 else ""
        notes.append(Note(f"left out, with no rank in the name: {names}"))
    others = [one.rank for one in report.ranks if one.other_devices]
    if others:
        notes.append(
            Note(
                f"several devices in {ranks_words(others)}: the one that has most in the new run"
                " is compared (--device chooses another)"
            )
        )
    return notes + _reasons(report)


def _subject(ranks: tuple[int, ...]) -> str:
    return f"{ranks_words(ranks)} {'is' if len(ranks) == 1 else 'are'}"


def _reasons(report: RanksReport) -> list[Note]:
    """What speaks against the numbers, once for all the runs and ranks that it is of."""
    found: dict[tuple[str, Level], dict[str, list[int]]] = {}
    for run in ("base", "new"):
        for one in report.ranks:
            side = one.base if run == "base" else one.new
            for note in notes_of(side):
                found.setdefault((note.text, note.level), {}).setdefault(run, []).append(one.rank)
    notes = []
    for (text, level), runs in found.items():
        names = [f"{run}, {_all_or(ranks, report)}" for run, ranks in runs.items()]
        if len(runs) == 2 and runs["base"] == runs["new"]:
            names = [f"base and new, {_all_or(runs['new'], report)}"]
        notes.append(Note(f"{'; '.join(names)}: {text}", level))
    return notes


def _all_or(ranks: list[int], report: RanksReport) -> str:
    return "all ranks" if len(ranks) == len(report.ranks) > 1 else ranks_words(ranks)
