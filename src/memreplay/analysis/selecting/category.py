"""Restrict a measure to categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.replay import Usage


def of_categories(grouper: Grouper, usage: Usage, wanted: tuple[str, ...]) -> Usage:
    """Restrict a measure to these categories. `grouper`: a grouper by category.

    Raises UsageError for an unknown category and for reserved memory.
    """
    if usage.measure == "reserved":
        raise UsageError("reserved memory has no categories; choose another --measure")
    there = grouper.dimensions.category.names
    for category in wanted:
        if category not in (*there, UNKNOWN):
            raise UsageError(f"unknown category {category!r}; known: {', '.join(there)}")

    def narrow(narrowed: Usage, measure: Measure) -> Measure:
        keys = grouper.keys(narrowed)
        keys.find_all()
        found = memoryview(keys.names()).tolist()
        named = (grouper.dimensions.label(narrowed, "category", name) for name in found)
        keys.keep(measure, bytes(one.text in wanted for one in named))
        return measure

    return usage.only(narrow)
