"""Describe the largest categories of a live set in one line."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.categories.origins import BEFORE
from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.render.holders import share
from memreplay.render.units import count, percent, size

MOST = 4


def category_words(name: str) -> str:
    """Return a category without the explanation after a colon: `before the recording`."""
    return BEFORE if name.startswith(f"{BEFORE}: ") else name


def kinds_text(source: CategoriesSource, found: Sequence[CategoryBytes], whole: int) -> str:
    """Name the largest categories, e.g. `guessed: activations 3.9 GiB (75.9%), …`."""
    if all(one.category == UNKNOWN for one in found):
        return ""
    words = [
        f"{category_words(one.category)} {size(one.bytes)} ({percent(share(one.bytes, whole))})"
        for one in found[:MOST]
    ]
    more = len(found) - len(words)
    rest = f", {count(more)} more (--by category)" if more else ""
    return f"{source}: {', '.join(words)}{rest}"
