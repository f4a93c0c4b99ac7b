"""Python interface for searching regular expressions."""

from collections.abc import Callable, Iterable
from typing import Final, final

from memreplay._core import Tables
from memreplay.engine.read.column import Column

NONE_FOUND: Final[int]
NOT_USED: Final[int]

@final
class Regexes:
    """Regular expressions, each with the bits that it contributes to a text's result."""

    def __new__(
        cls, regexes: Iterable[tuple[int, str]], otherwise: Callable[[str], int]
    ) -> Regexes: ...
    def search(self, text: str) -> int: ...
    def of_frames(self, tables: Tables) -> Column: ...
    def of_names(self, tables: Tables, functions: bool) -> bytes: ...
