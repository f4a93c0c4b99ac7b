"""The interface between the list and its rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from memreplay.render.blocks import place_text
from memreplay.render.document import Place
from memreplay.render.holders import coded_row, via_of
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.snapshot.model import By, Coded, Frame

FIRST_ROWS = 200  # how many groups and allocations are shown at first
MOST_ROWS = FIRST_ROWS * 4**3  # more rows would take too long for one key press
MORE = -1  # represents the rows that are left out


Tone = Literal["plain", "dim", "title", "own", "rose", "fell", "oom", "sure", "high"]
"""The name of a style in the palette."""


class Line(NamedTuple):
    """A row: numbers, text and tree depth."""

    cells: tuple[str, ...]
    name: str
    share: float = 0.0
    level: int = 0
    sign: str = ""  # "+" can be expanded, "-" is expanded
    dim: bool = False
    places: tuple[Place, ...] = ()  # the locations in `name`, which can be shortened to fit
    lead: tuple[tuple[str, Tone], ...] = ()  # before the name, never cut
    tail: str = ""  # after the name, never cut
    change: int = 0  # decreases are blue, increases red

    @property
    def text(self) -> str:
        """The row's text, uncut."""
        parts = ("".join(text for text, _ in self.lead) + self.name, self.tail)
        return "  ".join(filter(None, parts))


def named(one: Coded, by: By = "stack") -> tuple[Place, ...]:
    """Return a call site's locations, named as in tables: the user's line, then the library's.

    Without the library function, rows from the same notebook cell look the same.
    """
    name = coded_row((), one, by, all_frames=False).cells[-1]
    via = via_of(one) if by == "stack" else None
    return (name if isinstance(name, Place) else Place(str(name)), *((via,) if via else ()))


def named_line(
    cells: tuple[str, ...], one: Coded, share: float, by: By = "stack", change: int = 0
) -> Line:
    """Return a call site's row."""
    places = named(one, by)
    name = "  ".join(map(place_text, places))
    return Line(cells, name, share, places=places, change=change)


class Shown(NamedTuple):
    """A row's details: label-value pairs, and frames, innermost first.

    `user` and `libraries` are as in Coded. `places` name the row; without them, its title does.
    """

    title: str
    pairs: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()
    libraries: tuple[int, ...] = ()
    places: tuple[Place, ...] = ()


def named_shown(one: Coded, pairs: Sequence[tuple[str, str]], by: By = "stack") -> Shown:
    """Return a call site's details."""
    return Shown(
        clean(one.label), tuple(pairs), one.frames, one.user, one.libraries, named(one, by)
    )


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
