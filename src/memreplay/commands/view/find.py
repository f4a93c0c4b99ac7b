"""The pages of `memreplay view`: of one snapshot, of two, of the ranks of a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.selecting.answering import as_snapshot
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.report.find import overview
from memreplay.commands.report.text import report_document
from memreplay.commands.view.names import short_name
from memreplay.commands.view.options import project_words, read_words
from memreplay.errors import LimitError, UsageError
from memreplay.export.page.html import page_html
from memreplay.export.page.making import page_data
from memreplay.export.page.pages import page_of
from memreplay.render.blocks import NoteBlock, blocks_of
from memreplay.render.units import size
from memreplay.snapshot.model import MEASURES
from memreplay.snapshot.page_view import HEIGHT, PageView
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.export.page.records import Page, PageData
    from memreplay.render.blocks import ReportBlock
    from memreplay.snapshot.snapshot import Snapshot

    Data = tuple[PageData, bytes]
    Made = tuple[Page, list[bytes]]

# The numbers of JavaScript are exact up to here.
MOST_EXACT = 2**53 - 1
# Of the columns of a snapshot: deflated, as a text of JavaScript has at most 2**29 letters, and
# inflated, as browsers give no larger array.
MOST_PACKED, MOST_BYTES = 300 << 20, 2 << 30
# Of all columns of a page: what a browser has room for, with all that it makes of them.
MOST_IN_ALL = 4 << 30
_PART = "make a page of a part of it, with --from and --to"


def snapshot_data(
    snap: Snapshot,
    name: str | None = None,
    rules: tuple[Rule, ...] | None = None,
    *,
    report: bool = True,
    asked: tuple[str, ...] | None = None,
) -> Data:
    """What a page knows of a snapshot; with `report` the page of `memreplay report`, too. `asked`
    are the options beside what the snapshot knows that a command needs to say the same.

    Raises LimitError for what a browser would show wrong, or not at all.
    """
    _check_exact(snap)
    blocks = None
    if report:
        found = overview(snap, Selection(rules=rules), fold=True)
        blocks = blocks_of(report_document(found))
        for device in snap.devices:
            for usage in map(snap.replay(device).measure, MEASURES):
                usage.release()
    more = project_words(snap.project) if asked is None else asked
    made = page_data(
        snap,
        name=name or short_name(snap.file),
        rules=rules,
        report=blocks,
        options=(*read_words(snap), *more),
    )
    _check_room((made,))
    return made


def one_page(
    snap: Snapshot,
    rules: tuple[Rule, ...] | None = None,
    asked: tuple[str, ...] | None = None,
) -> Made:
    """The page of one snapshot. Raises LimitError."""
    return page_of([snapshot_data(snap, rules=rules, asked=asked)])


def compared_page(
    base: Snapshot,
    new: Snapshot,
    rules: tuple[Rule, ...] | None = None,
    asked: tuple[str, ...] | None = None,
) -> Made:
    """The page of two, and what `memreplay diff` says of them. Raises LimitError."""
    from memreplay.commands.diff.find import diff_report  # late: most pages are of one
    from memreplay.commands.diff.text import diff_document

    both = [snapshot_data(snap, rules=rules, asked=asked) for snap in (base, new)]
    _check_room(both)
    diff: tuple[ReportBlock, ...]
    try:
        diff = blocks_of(diff_document(diff_report(base, new, Selection(rules=rules))))
    except UsageError as error:  # they have no device in common: each is shown by itself
        diff = (NoteBlock(clean(str(error)), warning=True),)
    return page_of(both, kind="compare", diff=diff)


def ranks_page(folder: str, ranks: Mapping[int, Data]) -> Made:
    """The page of a run, a snapshot a rank. Raises LimitError."""
    found = list(ranks.values())
    _check_room(found, f"memreplay fleet {shlex.quote(folder)} --page FILE has all ranks, in steps")
    return page_of(found, kind="ranks", title=short_name(folder))


def view(
    snap: Snapshot | str | os.PathLike[str],
    after: Snapshot | str | os.PathLike[str] | None = None,
    *,
    height: int = HEIGHT,
    rules: tuple[Rule, ...] | None = None,
) -> PageView:
    """The interactive page of a snapshot, or of it and a later one (`after`), as `memreplay view`
    makes it: a notebook shows it, `.save("page.html")` writes it.

    `height` is that of the frame in a notebook, in pixels; `rules` are those of categories. Raises
    LimitError for what is too large for a browser.
    """
    first: Snapshot = as_snapshot(snap)
    second: Snapshot | None = as_snapshot(after)
    made = one_page(first, rules) if second is None else compared_page(first, second, rules)
    page, columns = made
    return PageView(b"".join(page_html(page, columns)), page.title, height)


def _check_exact(snap: Snapshot) -> None:
    """Raises LimitError for more bytes than a browser can count one by one."""
    for device in snap.devices:
        replay = snap.replay(device)
        highest = 0
        for usage in map(replay.measure, MEASURES):
            highest = max(highest, usage.peak.bytes)
            usage.release()  # all at once would be 40 bytes an event
        if highest > MOST_EXACT:
            raise LimitError(
                f"device {device} goes up to {highest:,} bytes, and browsers count exactly up to"
                f" {MOST_EXACT:,} only",
                hint="memreplay report has no such limit",
            )


def _check_room(snapshots: Sequence[Data], instead: str = _PART) -> None:
    """Raises LimitError for more than a browser opens in all, with what to do instead."""
    whole = 0
    for data, columns in snapshots:
        whole += data.bytes
        if len(columns) > MOST_PACKED or data.bytes > MOST_BYTES:
            raise LimitError(
                f"a page of it has {size(len(columns) * 4 // 3)}, {size(data.bytes)} unpacked,"
                " which browsers do not open",
                hint=_PART,
            )
    if whole > MOST_IN_ALL:
        raise LimitError(
            f"a page of all of them has {size(whole)} unpacked, which browsers do not open",
            hint=instead,
        )
