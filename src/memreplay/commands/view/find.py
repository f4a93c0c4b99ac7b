"""Build the pages of `memreplay view`, for one snapshot, two snapshots, or a run's ranks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.selecting.answering import as_snapshot
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.report.find import ReportOptions, overview
from memreplay.commands.report.text import doubts_line, headline, report_document
from memreplay.commands.view.extras import extras_of
from memreplay.commands.view.names import short_name
from memreplay.commands.view.options import NOTHING_GIVEN, Given, project_options, range_options_of
from memreplay.errors import LimitError, UsageError
from memreplay.export.page.building import page_data
from memreplay.export.page.html import page_html
from memreplay.export.page.pages import page_of
from memreplay.export.page.records import PageReport
from memreplay.render.blocks import NoteBlock, blocks_of
from memreplay.render.document import Block, Note
from memreplay.render.units import counted, size
from memreplay.snapshot.model import MEASURES
from memreplay.snapshot.page_view import HEIGHT, PageView
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.export.page.records import Page, PageData
    from memreplay.fleets.result import Outlier
    from memreplay.render.blocks import ReportBlock
    from memreplay.snapshot.snapshot import Snapshot

    Data = tuple[PageData, bytes]
    Made = tuple[Page, list[bytes]]

# JavaScript's Number.MAX_SAFE_INTEGER.
MOST_EXACT = 2**53 - 1
# Limits on the size of a snapshot's columns: compressed, because JavaScript strings have at most
# 2**29 characters, and decompressed, because browsers limit the size of arrays.
MOST_PACKED, MOST_BYTES = 300 << 20, 2 << 30
# Limit on the size of all of a page's columns together, because browsers limit memory.
MOST_IN_ALL = 4 << 30
_PART = "make a page of a part with --from and --to"


def snapshot_data(
    snap: Snapshot,
    name: str | None = None,
    rules: tuple[Rule, ...] | None = None,
    *,
    report: bool = True,
    given: Given = NOTHING_GIVEN,
) -> Data:
    """Return a snapshot's page data, including the one-page report if `report` is set.

    Raises LimitError for data that a browser would show wrong or not at all, UsageError if a card
    is larger than the given size.
    """
    _check_exact(snap)
    said, found, total = None, None, given.total_memory
    if report:
        found = overview(snap, Selection(rules=rules, fold=True), ReportOptions(total_memory=total))
        doubts = {one.device: doubts_line(one) for one in found.devices}
        said = PageReport(
            blocks_of(report_document(found)),
            {one.device: ", ".join(headline(one)) for one in found.devices},
            {device: line for device, line in doubts.items() if line},
        )
    extras = extras_of(snap, found, total)
    if report:
        for device in snap.devices:
            for usage in map(snap.replay(device).measure, MEASURES):
                usage.release()
    more = project_options(snap.project) if given.options is None else given.options
    made = page_data(
        snap,
        name=name or short_name(snap.file),
        rules=rules,
        report=said,
        options=(*range_options_of(snap), *more),
        extras=extras,
    )
    _check_room((made,))
    return made


def one_page(
    snap: Snapshot, rules: tuple[Rule, ...] | None = None, given: Given = NOTHING_GIVEN
) -> Made:
    """Return the page of one snapshot. Raises LimitError, UsageError."""
    return page_of([snapshot_data(snap, rules=rules, given=given)])


def compared_page(
    base: Snapshot,
    new: Snapshot,
    rules: tuple[Rule, ...] | None = None,
    given: Given = NOTHING_GIVEN,
) -> Made:
    """Return the page of two snapshots with their diff. Raises LimitError, UsageError."""
    # Imported late: most pages show one snapshot
    from memreplay.commands.diff.find import DiffOptions, diff_report
    from memreplay.commands.diff.text import diff_document

    both = [snapshot_data(snap, rules=rules, given=given) for snap in (base, new)]
    _check_room(both)
    diff: tuple[ReportBlock, ...]
    try:
        found = diff_report(base, new, Selection(rules=rules), DiffOptions())
        diff = blocks_of(diff_document(found))
    except UsageError as error:  # there's no common device, so show each snapshot by itself
        diff = (NoteBlock(clean(str(error)), warning=True),)
    return page_of(both, kind="compare", diff=diff)


def ranks_page(folder: str, ranks: Mapping[int, Data], outliers: Sequence[Outlier] = ()) -> Made:
    """Return the page of a run, which has a snapshot per rank. Raises LimitError.

    `outliers`: ranks that the page names.
    """
    found = [_with_outliers(rank, *data, folder, outliers) for rank, data in ranks.items()]
    _check_room(
        found,
        f"memreplay fleet {shlex.quote(folder)} --write html=ranks.html shows all ranks, at"
        " lower resolution",
    )
    return page_of(found, kind="ranks", title=short_name(folder))


def _with_outliers(
    rank: int, data: PageData, columns: bytes, folder: str, outliers: Sequence[Outlier]
) -> Data:
    """Return a rank's data with what `memreplay fleet` says about the run's outliers."""
    if not outliers:
        return data, columns
    # Imported late: most pages show one snapshot
    from memreplay.fleets.text import outlier_blocks, outlier_line

    document: list[Block] = [Note(f"outliers, as in memreplay fleet {shlex.quote(folder)}")]
    for one in outliers:
        document += outlier_blocks(one)
    others = f", and {counted(len(outliers) - 1, 'more outlier')}" if len(outliers) > 1 else ""
    words = f"outlier: {outlier_line(outliers[0])}{others}"
    verdicts = {
        one.device: clean(f"{data.name}, device {one.device}; {words}") for one in data.devices
    }
    is_odd = any(one.rank == rank for one in outliers)
    name = f"{data.name} (outlier)" if is_odd else data.name
    report = PageReport(blocks_of(tuple(document)), verdicts, {})
    return replace(data, name=name, report=report), columns


def view(
    snap: Snapshot | str | os.PathLike[str],
    after: Snapshot | str | os.PathLike[str] | None = None,
    *,
    height: int = HEIGHT,
    rules: tuple[Rule, ...] | None = None,
    total_memory: int | None = None,
) -> PageView:
    """Return the interactive page of a snapshot, or of the snapshot and a later one (`after`), like
    `memreplay view`.

    Notebooks show it; `.save("page.html")` writes it. `height`: the notebook frame's height in
    pixels. `rules`: category rules. `total_memory`: the card's memory in bytes, if the file doesn't
    say. Raises LimitError if the page is too large for a browser.
    """
    first: Snapshot = as_snapshot(snap)
    second: Snapshot | None = None if after is None else as_snapshot(after)
    given = Given(total_memory=total_memory)
    if second is None:
        page, columns = one_page(first, rules, given)
    else:
        page, columns = compared_page(first, second, rules, given)
    return PageView(b"".join(page_html(page, columns)), page.title, height)


def _check_exact(snap: Snapshot) -> None:
    """Raise LimitError if byte counts are too large to be exact in JavaScript."""
    for device in snap.devices:
        replay = snap.replay(device)
        highest = 0
        for usage in map(replay.measure, MEASURES):
            highest = max(highest, usage.peak.bytes)
            usage.release()  # keeping all measures would take 40 bytes per event
        if highest > MOST_EXACT:
            raise LimitError(
                f"device {device} goes up to {highest:,} bytes, but browsers count exactly"
                f" only up to {MOST_EXACT:,}",
                hint="use memreplay report, which has no such limit",
            )


def _check_room(snapshots: Sequence[Data], instead: str = _PART) -> None:
    """Raise LimitError if a browser can't open this much data. The message suggests an
    alternative.
    """
    whole = 0
    for data, columns in snapshots:
        whole += data.bytes
        if len(columns) > MOST_PACKED or data.bytes > MOST_BYTES:
            raise LimitError(
                f"the page would have {size(len(columns) * 4 // 3)}, {size(data.bytes)}"
                " unpacked, more than browsers can open",
                hint=_PART,
            )
    if whole > MOST_IN_ALL:
        raise LimitError(
            f"the page of all of them would have {size(whole)} unpacked, more than"
            " browsers can open",
            hint=instead,
        )
