"""Live memory by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

CategoriesSource = Literal["recorded", "guessed"]


class CategoryBytes(Record, frozen=True):
    """A category's live memory."""

    category: str
    """Its [name](categories.md)."""
    bytes: int
    """Live bytes."""
    count: int
    """Number of allocations."""


def categories_at(grouper: Grouper, usage: Usage, event: int) -> tuple[CategoryBytes, ...]:
    """Return the categories live after an event, largest first."""
    dimensions = grouper.dimensions
    keys = dimensions.keys(usage, "category")
    found, *_ = keys.sums(usage.listed(event), usage.native, 0)
    return tuple(
        CategoryBytes(dimensions.label(usage, "category", name).text, n_bytes, count)
        for name, _, n_bytes, count, _ in found
    )


def categories_source(snap: Snapshot) -> CategoriesSource:
    """Return the source of a snapshot's categories."""
    return "guessed" if snap.recorded is None else "recorded"
