"""The texts of a page, each once: names of code, files and groups."""

from __future__ import annotations

from memreplay.texts import clean


class Texts:
    """Texts by their places. They are shown as the text commands show them, with controls, lone
    surrogates and marks of direction spelled out."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Where a text stands; it is added where it does not yet."""
        return self._places.setdefault(clean(text), len(self._places))

    def all(self) -> tuple[str, ...]:
        """All of them, by their places."""
        return tuple(self._places)
