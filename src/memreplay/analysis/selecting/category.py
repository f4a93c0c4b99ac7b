"""A measure of the allocations of one category alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.replay import Usage


def of_categories(grouper: Grouper, usage: Usage, wanted: tuple[str, ...]) -> Usage:
    """The same measure of these categories; `grouper` is one by category.

    Raises UsageError for a category that no rule has, and for reserved memory.
    """
    if usage.measure == "reserved":
        raise UsageError("reserved memory consists of segments, which have no categories")
    there = grouper.dimensions.category.names
    for category in wanted:
        if category not in (*there, UNKNOWN):
            raise UsageError(
                f"no rule has the category {category!r}; there are: {', '.join(there)}"
            )

    def narrow(narrowed: Usage, measure: Measure) -> Measure:
        keys = grouper.keys(narrowed)
        keys.meet()
        found = memoryview(keys.names()).tolist()
        named = (grouper.dimensions.label(narrowed, "category", name) for name in found)
        keys.keep(measure, bytes(one.text in wanted for one in named))
        return measure

    return usage.only(narrow)
