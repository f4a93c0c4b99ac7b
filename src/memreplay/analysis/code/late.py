"""Regular expressions that are compiled when something may be found with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Late:
    """A regular expression of memreplay's own: its mistakes are found by tests, not by people.

    Most files meet few of them, and to compile one takes as long as to load a module. `needles` are
    what `needles.needles` finds of it, where that is worth keeping beside it: without one of them,
    nothing is compiled.
    """

    __slots__ = ("_compiled", "needles", "pattern")

    def __init__(self, pattern: str, needles: tuple[str, ...] | None = None) -> None:
        self.pattern = pattern
        self.needles = needles
        self._compiled: Callable[[str], re.Match[str] | None] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        """As that of a pattern that is compiled."""
        if self._compiled is None:
            if self.needles is not None and text.isascii():
                small = text.lower()
                if not any(one in small for one in self.needles):
                    return None
            self._compiled = re.compile(self.pattern).search
        return self._compiled(text)
