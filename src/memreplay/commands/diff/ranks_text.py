"""Format a diff of two folders as text."""

from __future__ import annotations

from memreplay.analysis.comparing.spread import Spread
from memreplay.commands.at.text import when_text
from memreplay.commands.diff.ranks_result import RankDiff, RanksReport
from memreplay.commands.diff.text import change_blocks, device_text, is_peak
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
from memreplay.render.ranks import rank_list_text
from memreplay.render.reasons import notes_of
from memreplay.render.units import change_text, counted, percent, signed_size, size

_NAMES = 3  # maximum number of files listed in a note


def ranks_document(report: RanksReport, top: int = 20) -> Document:
    """Build sections for both folders, the spread, the highest ranks, and one rank's groups."""
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
            devices = device_text(device.base_device, device.device)
            name = f"rank {report.detail_rank}, {devices}"
            blocks += change_blocks(device, detail, name)
    return tuple(blocks)


def _headline(report: RanksReport) -> tuple[str, ...]:
    ranks = counted(len(report.ranks), "rank")
    start = f"{ranks}: highest peak"
    if not is_peak(report.moment):
        start = f"{ranks} at {when_text(report.moment)}: highest"
    base, new = report.base.max_bytes, report.new.max_bytes
    return (f"{start} {size(base)} -> {size(new)} {report.measure}", change_text(base, new))


def _pairs(report: RanksReport) -> tuple[tuple[str, str], ...]:
    measure = f"{report.measure}, {_exactness(report)}"
    return (("measure", measure), *_most(report), *filter_pairs(report.filters))


def _most(report: RanksReport) -> list[tuple[str, str]]:
    """Return the ranks that grew and shrank most."""
    change = report.change
    found = []
    if change.max_bytes > 0:
        found.append(("grew most", _changed(report, change.max_rank)))
    if change.min_bytes < 0:
        found.append(("shrank most", _changed(report, change.min_rank)))
    return found or [("change", "none on any rank")]


def _changed(report: RanksReport, rank: int) -> str:
    one = next(one for one in report.ranks if one.rank == rank)
    sizes = f"{size(one.base.bytes)} -> {size(one.new.bytes)}"
    return f"rank {rank}, {sizes}, {change_text(one.base.bytes, one.new.bytes)}"


def _exactness(report: RanksReport) -> str:
    estimated = _estimated(report)
    if not estimated:
        return "exact"
    if len(estimated) == len(report.ranks):
        return "estimated"
    return f"exact except in {rank_list_text(estimated)}"


def _estimated(report: RanksReport) -> list[int]:
    """Note which ranks aren't exact in both runs."""
    return [
        one.rank for one in report.ranks if "estimated" in (one.base.exactness, one.new.exactness)
    ]


def _spread_table(report: RanksReport) -> Table:
    """Build a table of the spread in each run. The runs' highest ranks can differ."""
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
    """Build a table of the highest ranks."""
    ranks = sorted(report.ranks, key=lambda one: (-one.new.bytes, one.rank))
    shown = ranks[:top] if top else ranks
    estimated = frozenset(_estimated(report))
    if len(estimated) == len(report.ranks):
        estimated = frozenset()  # already noted above
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
    """Return notes on what isn't compared, then each doubt once, with the ranks that it applies
    to.
    """
    notes = [
        Note(f"{_subject(ranks)} only in {folder}, so not compared")
        for ranks, folder in (
            (report.only_base, report.base_folder),
            (report.only_new, report.new_folder),
        )
        if ranks
    ]
    if report.not_read:
        words = rank_list_text(report.not_read)
        notes.append(Note(f"{words} couldn't be compared; see the errors", "warning"))
    if report.unranked_files:
        names = ", ".join(report.unranked_files[:_NAMES])
        more = len(report.unranked_files) - _NAMES
        names += f" and {more} more" if more > 0 else ""
        notes.append(Note(f"left out because the name has no rank: {names}"))
    others = [one.rank for one in report.ranks if one.other_devices]
    if others:
        notes.append(
            Note(
                f"several devices in {rank_list_text(others)}; only the one that holds most in"
                " the new run is compared (--device chooses another)"
            )
        )
    return notes + _reasons(report)


def _subject(ranks: tuple[int, ...]) -> str:
    return f"{rank_list_text(ranks)} {'is' if len(ranks) == 1 else 'are'}"


def _reasons(report: RanksReport) -> list[Note]:
    """Return each doubt once, with all runs and ranks that it applies to."""
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
    return "all ranks" if len(ranks) == len(report.ranks) > 1 else rank_list_text(ranks)
