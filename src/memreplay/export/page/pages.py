"""Combine pages: one snapshot, two to compare, or a run's ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from memreplay.export.page.records import Page, PageData
from memreplay.io.version import __version__
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.render.blocks import ReportBlock


def page_of(
    snapshots: Sequence[tuple[PageData, bytes]],
    *,
    kind: Literal["one", "compare", "ranks"] = "one",
    title: str | None = None,
    diff: tuple[ReportBlock, ...] | None = None,
) -> tuple[Page, list[bytes]]:
    """Return the records, and each snapshot's columns. `snapshots`: results of `page_data`.

    `diff`: the output of `memreplay diff` for two.
    """
    names = " and ".join(data.name for data, _ in snapshots)
    return (
        Page(
            version=__version__,
            title=names if title is None else clean(title),
            kind=kind,
            snapshots=tuple(data for data, _ in snapshots),
            diff=diff,
        ),
        [columns for _, columns in snapshots],
    )
