"""Snapshots for callers of the library: they make tables and pages of themselves.

The layer `snapshot` is below the layers that make them, so this module registers their functions
with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot import snapshot
from memreplay.snapshot.snapshot import Later, Snapshot, open  # noqa: A004

if TYPE_CHECKING:
    from memreplay.snapshot.page_view import PageView
    from memreplay.snapshot.tabular import Batched

__all__ = ["Snapshot", "open"]


def _table(snap: Snapshot, name: str) -> Batched:
    from memreplay.export.tables.making import table  # late: it loads NumPy

    return table(snap, name)


def _view(snap: Snapshot, after: Snapshot | None, *, height: int) -> PageView:
    from memreplay.commands.view.find import view  # late: it loads what makes pages

    return view(snap, after, height=height)


snapshot.offer(Later(_table, _view))
