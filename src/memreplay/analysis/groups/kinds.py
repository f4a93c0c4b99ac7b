"""What is held, by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

# Whether memreplay's recorder noted categories, or rules guess them.
CategoriesSource = Literal["recorded", "guessed"]


class CategoryBytes(Record, frozen=True):
    """What a category held."""

    category: str
    """Its [name](categories.md)."""
    bytes: int
    """What it held."""
    count: int
    """In how many allocations."""


def categories_at(grouper: Grouper, usage: Usage, event: int) -> tuple[CategoryBytes, ...]:
    """The categories of all that is held after an event, the largest first."""
    dimensions = grouper.dimensions
    keys = dimensions.keys(usage, "category")
    found, *_ = keys.sums(usage.listed(event), usage.native, 0)
    return tuple(
        CategoryBytes(dimensions.label(usage, "category", name).text, n_bytes, count)
        for name, _, n_bytes, count, _ in found
    )


def categories_source(snap: Snapshot) -> CategoriesSource:
    """Where the categories of a snapshot come from."""
    return "guessed" if snap.recorded is None else "recorded"
