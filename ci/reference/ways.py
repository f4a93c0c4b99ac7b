"""Generate the table of grouping keys in docs/numbers.md from the registry."""

from __future__ import annotations

import re

from ci.reference.words import DOCS, table
from memreplay.analysis.groups.ways import WAYS

PAGE = DOCS / "numbers.md"
_BLOCK = re.compile(r"(<!-- ways -->\n).*?(<!-- end of ways -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the page with a fresh table."""
    rows = ((f"`{name}`", way.help) for name, way in WAYS.items())
    made = table(("way", "groups allocations that"), *rows)
    found, n = _BLOCK.subn(lambda match: match[1] + made + match[2], text)
    assert n == 1, f"{PAGE.name} has no place for the ways to group"
    return found
