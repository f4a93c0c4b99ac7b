"""A page's strings (names of functions, files and groups) without duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.blocks import place_text
from memreplay.render.document import Place
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.render.document import Words


class Texts:
    """Strings by index.

    Strings are written as commands print them, with control characters, lone surrogates and bidi
    marks escaped.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._code: dict[int, tuple[int, ...]] = {}

    def place(self, text: str) -> int:
        """Return a text's index, adding the text if it's new."""
        return self._places.setdefault(clean(text), len(self._places))

    def label(self, words: Words) -> int:
        """Return a label's index; if it names code, its parts are stored as well."""
        found = self.place(place_text(words))
        if isinstance(words, Place) and words.file and found not in self._code:
            parts = (self.place(one) for one in (words.file, words.function, words.note))
            self._code[found] = (found, words.line, *parts)
        return found

    def code(self) -> tuple[tuple[int, ...], ...]:
        """The labels that name code, with their parts, as in `PageData.code`."""
        return tuple(self._code.values())

    def all(self) -> tuple[str, ...]:
        """All texts by index."""
        return tuple(self._places)
