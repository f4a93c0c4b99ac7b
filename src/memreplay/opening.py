"""Snapshots for library callers, with the methods that build tables and pages.

The layer `snapshot` can't import the layers that build tables and pages, so this module registers
their functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.moments.opening import open  # noqa: A004
from memreplay.snapshot import snapshot
from memreplay.snapshot.snapshot import Later, Snapshot

if TYPE_CHECKING:
    from memreplay.snapshot.page_view import PageView
    from memreplay.snapshot.tabular import Batched

__all__ = ["Snapshot", "open"]


def _table(snap: Snapshot, name: str) -> Batched:
    from memreplay.export.tables.building import table  # imported late: needs NumPy

    return table(snap, name)


def _view(snap: Snapshot, after: Snapshot | None, *, height: int) -> PageView:
    from memreplay.commands.view.find import view  # imported late: needs the page builder

    return view(snap, after, height=height)


snapshot.offer(Later(_table, _view))
