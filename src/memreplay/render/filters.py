"""Which allocations alone count, in words and as JSON, the same in every report."""

from __future__ import annotations

from memreplay.render.units import size
from memreplay.snapshot.model import Filters

NOTHING_LEFT = "no allocation passes the filters"


def filter_pairs(filters: Filters | None) -> list[tuple[str, str]]:
    """A line that says what alone counts; none where everything does."""
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
    if filters.only_baseline:
        words.append("of the baseline")
    if filters.no_baseline:
        words.append("allocated in the recording")
    return [("only", ", ".join(words))]


def filters_json(filters: Filters | None) -> dict[str, object] | None:
    """The filters, null where there are none."""
    if not filters:
        return None
    return {
        "include": list(filters.include),
        "exclude": list(filters.exclude),
        "min_bytes": filters.min_bytes,
        "only_live_at_end": filters.only_live_at_end,
        "only_baseline": filters.only_baseline,
        "no_baseline": filters.no_baseline,
    }
