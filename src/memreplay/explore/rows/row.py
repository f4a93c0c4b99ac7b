"""What the list needs of its rows, whatever they are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memreplay.render.blocks import place_words
from memreplay.render.document import Place
from memreplay.render.holders import coded_row, via_of

if TYPE_CHECKING:
    from memreplay.snapshot.model import By, Coded, Frame

FIRST_ROWS = 200  # of groups and allocations, until somebody goes further down
MOST_ROWS = FIRST_ROWS * 4**3  # more take longer than a key may
MORE = -1  # the row that stands for what is cut


class Line(NamedTuple):
    """A row: its numbers, and what it is called, so deep in a tree."""

    cells: tuple[str, ...]
    text: str
    share: float = 0.0
    level: int = 0
    sign: str = ""  # "+" what can be opened, "-" what can be closed
    dim: bool = False
    places: tuple[Place, ...] = ()  # what `text` says, to be shortened to the room there is


def named_line(cells: tuple[str, ...], one: Coded, share: float, by: By = "stack") -> Line:
    """The row of what has code, named as tables name it: behind its place the library that it
    called, which is all that tells the rows of a notebook's cell apart."""
    name = coded_row((), one, by, all_frames=False).cells[-1]
    via = via_of(one) if by == "stack" else None
    places = (name if isinstance(name, Place) else Place(str(name)), *((via,) if via else ()))
    return Line(cells, "  ".join(map(place_words, places)), share, places=places)


class Shown(NamedTuple):
    """What is told of a row beside the list: pairs of words, and the frames, innermost first, of
    which some are the user's."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()


class Rows(Protocol):
    """Rows of one kind."""

    titles: tuple[str, ...]
    note: str

    def __len__(self) -> int: ...

    def line(self, at: int) -> Line:
        """One row."""
        ...

    def key(self, at: int) -> Hashable:
        """What it is of, at other moments, too."""
        ...

    def texts(self, at: int) -> Sequence[str]:
        """What a search looks at."""
        ...

    def shown(self, at: int) -> Shown:
        """What is told of it."""
        ...


def frame_texts(frames: Sequence[Frame]) -> list[str]:
    """As filters look at frames."""
    return [f"{one.function} {one.file}:{one.line}" for one in frames]


def how(shown: int) -> str:
    """How to come by what is cut."""
    return "Enter shows more" if shown < MOST_ROWS else "f filters them"
