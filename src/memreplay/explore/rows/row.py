"""The interface between the list and its rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memreplay.render.blocks import place_text
from memreplay.render.document import Place
from memreplay.render.holders import coded_row, via_of

if TYPE_CHECKING:
    from memreplay.snapshot.model import By, Coded, Frame

FIRST_ROWS = 200  # how many groups and allocations are shown at first
MOST_ROWS = FIRST_ROWS * 4**3  # more rows would take too long for one key press
MORE = -1  # represents the rows that are left out


class Line(NamedTuple):
    """A row: numbers, text and tree depth."""

    cells: tuple[str, ...]
    text: str
    share: float = 0.0
    level: int = 0
    sign: str = ""  # "+" can be expanded, "-" is expanded
    dim: bool = False
    places: tuple[Place, ...] = ()  # locations in `text` that can be shortened to fit


def named_line(cells: tuple[str, ...], one: Coded, share: float, by: By = "stack") -> Line:
    """Return a call site's row, named as in tables.

    The library function that it called is appended, because without it, rows from the same notebook
    cell look the same.
    """
    name = coded_row((), one, by, all_frames=False).cells[-1]
    via = via_of(one) if by == "stack" else None
    places = (name if isinstance(name, Place) else Place(str(name)), *((via,) if via else ()))
    return Line(cells, "  ".join(map(place_text, places)), share, places=places)


class Shown(NamedTuple):
    """A row's details: label-value pairs, and frames, innermost first, with the user's marked."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()


class Rows(Protocol):
    """Base class for rows of one kind."""

    titles: tuple[str, ...]
    note: str

    def __len__(self) -> int: ...

    def line(self, at: int) -> Line:
        """Return one row."""
        ...

    def key(self, at: int) -> Hashable:
        """Return a key that identifies the row at any moment."""
        ...

    def texts(self, at: int) -> Sequence[str]:
        """Return the strings in which a search looks."""
        ...

    def shown(self, at: int) -> Shown:
        """Return the row's details."""
        ...


def frame_texts(frames: Sequence[Frame]) -> list[str]:
    """Format frames the way filters match them."""
    return [f"{one.function} {one.file}:{one.line}" for one in frames]


def how(shown: int) -> str:
    """Return how to show the omitted rows."""
    return "Enter shows more" if shown < MOST_ROWS else "f filters them"
