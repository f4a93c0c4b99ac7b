"""Describe the active filters."""

from __future__ import annotations

from memreplay.analysis.selecting.selection import Filters
from memreplay.render.units import size

NOTHING_LEFT = "no allocation passes the filters"


def filter_pairs(filters: Filters | None) -> list[tuple[str, str]]:
    """Return a line with the filters; empty if there are none."""
    if not filters:
        return []
    words = []
    if filters.include:
        words.append("frames with " + " or ".join(filters.include))
    if filters.exclude:
        words.append("no frame with " + " or ".join(filters.exclude))
    if filters.min_bytes:
        words.append(f"{size(filters.min_bytes)} or more")
    if filters.only_live_at_end:
        words.append("live at the end")
    if filters.only_carried_over:
        words.append("carried over")
    if filters.no_carried_over:
        words.append("allocated in the recording")
    return [("only", ", ".join(words))]
