"""A page's strings (names of functions, files and groups) without duplicates."""

from __future__ import annotations

from memreplay.texts import clean


class Texts:
    """Strings by index.

    Strings are written as commands print them, with control characters, lone surrogates and bidi
    marks escaped.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return a text's index, adding the text if it's new."""
        return self._places.setdefault(clean(text), len(self._places))

    def all(self) -> tuple[str, ...]:
        """All texts by index."""
        return tuple(self._places)
