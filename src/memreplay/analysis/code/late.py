"""Regular expressions that are compiled on demand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Late:
    """One of memreplay's own regular expressions, compiled at first use.

    Tests compile them all to find mistakes. Compiling one takes as long as importing a module, and
    most files need only a few. `needles`: the result of `needles.needles`, if it's worth storing.
    If a text contains none of them, the expression isn't compiled.
    """

    __slots__ = ("_compiled", "needles", "pattern")

    def __init__(self, pattern: str, needles: tuple[str, ...] | None = None) -> None:
        self.pattern = pattern
        self.needles = needles
        self._compiled: Callable[[str], re.Match[str] | None] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        """Search a text, like re.Pattern.search."""
        if self._compiled is None:
            if self.needles is not None and text.isascii():
                small = text.lower()
                if not any(one in small for one in self.needles):
                    return None
            self._compiled = re.compile(self.pattern).search
        return self._compiled(text)
