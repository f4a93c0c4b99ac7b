"""The largest categories of a live set, on a line."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.render.holders import share
from memreplay.render.units import count, percent, size

MOST = 4


def kinds_words(source: CategoriesSource, found: Sequence[CategoryBytes], whole: int) -> str:
    """`guessed: activations 3.9 GiB (75.9%), …`; empty where nothing is known."""
    if all(one.category == UNKNOWN for one in found):
        return ""
    words = [
        f"{one.category} {size(one.bytes)} ({percent(share(one.bytes, whole))})"
        for one in found[:MOST]
    ]
    more = len(found) - len(words)
    rest = f", {count(more)} more (--by category)" if more else ""
    return f"{source}: {', '.join(words)}{rest}"
