"""The document model of text reports (headings, pairs, tables, notes), and the base of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.code.naming import Name

Style = Literal["plain", "strong", "dim", "warning"]
Level = Literal["note", "warning"]
Align = Literal["left", "right"]
# Colours for series (hues) and for layers (areas). Colour 0 is for the rest.
_Colour = Literal[
    "hue1",
    "hue2",
    "hue3",
    "hue4",
    "hue5",
    "hue6",
    "area0",
    "area1",
    "area2",
    "area3",
    "area4",
    "area5",
    "area6",
]
Hue = Style | _Colour
Line = tuple[tuple[str, Hue], ...]


class Place(Struct, frozen=True):
    """A location in code, shortened by the renderer; the path is cut from the left.

    `note` follows the location if there's room next to the file name. `source`, the line's text, is
    printed below the location, but only in tables.
    """

    function: str = ""
    file: str = ""
    line: int = 0
    note: str = ""
    source: str = ""

    @classmethod
    def of(cls, name: Name) -> Place:
        """Return the location that names a frame or stack."""
        return cls(name.function, name.file, name.line, name.note, name.source)


class Bar(Struct, frozen=True):
    """A bar that fills a share (0.0 to 1.0) of the available width, up to a maximum width."""

    part: float


Words = str | Place | Bar
Below = tuple[tuple[Place, Style], ...]


class Heading(Struct, frozen=True):
    """Starts a section. Phrases are joined by commas, after which lines may break."""

    phrases: tuple[Words, ...]


class Pairs(Struct, frozen=True):
    """Names with aligned values, one pair per line."""

    rows: tuple[tuple[str, str], ...]


class Row(Struct, frozen=True):
    """A table row: one cell per column, and below the last cell further lines (e.g. callers).

    `below` has a style for each line.
    """

    cells: tuple[Words, ...]
    below: Below = ()
    style: Style = "plain"


class Table(Struct, frozen=True):
    """A table. Each column is as wide as its widest cell, and the last one takes the rest.

    While the last column is narrower than both its widest cell and `least`, `spare` columns are
    dropped, in this order.
    """

    titles: tuple[str, ...]
    aligns: tuple[Align, ...]
    rows: tuple[Row, ...]
    spare: tuple[int, ...] = ()
    least: int = 36


class Beside(Struct, frozen=True):
    """Tables side by side if there's room, otherwise below each other."""

    tables: tuple[Table, ...]


class Note(Struct, frozen=True):
    """A sentence or two; `warning` means that a number above may be wrong."""

    text: str
    level: Level = "note"


class Picture(Struct, frozen=True):
    """Preformatted lines, made for the renderer's width."""

    lines: tuple[Line, ...]


Block = Heading | Pairs | Table | Beside | Picture | Note
Document = tuple[Block, ...]


def device_blocks(sections: Sequence[Sequence[Block]]) -> list[Block]:
    """Join the sections of devices. Notes that all of several devices have are shown once, last."""
    first, *others = sections or [()]
    if not others:
        return list(first)
    notes = [one for one in first if isinstance(one, Note)]
    shared = [note for note in notes if all(note in section for section in others)]
    blocks = [block for section in sections for block in section if block not in shared]
    return [*blocks, *(Note(f"all devices: {note.text}", note.level) for note in shared)]


class Answer(Record, frozen=True):
    """A command's result. `print` writes the same text as the command, and a notebook shows the
    result.
    """

    def document(self) -> Document:
        """Build the report, from which both text and HTML are made."""
        raise NotImplementedError

    def __str__(self) -> str:
        # imported late, because most results aren't printed
        from memreplay.render.plain import render_plain
        from memreplay.width import terminal_width

        return render_plain(self.document(), width=terminal_width())

    def _repr_html_(self) -> str:
        # imported late, because only notebooks need it
        from memreplay.render.html import render_html

        return render_html(self.document())
