"""The tiny document that text reports are made of: headings, pairs, tables and notes, no layout;
and the base of results, which print as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.code.naming import Name

Style = Literal["plain", "strong", "dim", "warning"]
Level = Literal["note", "warning"]
Align = Literal["left", "right"]
# Colours that tell series (hues) and layers (areas) apart; 0 is what is left over.
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
    """A place in code; a sink shortens it to the width there is, the path from its left.

    `note` stands behind it, as long as there is room for the file's name, too. `source`, the text
    of the line, stands below it in tables, and nowhere else.
    """

    function: str = ""
    file: str = ""
    line: int = 0
    note: str = ""
    source: str = ""

    @classmethod
    def of(cls, name: Name) -> Place:
        """The place that a frame or a stack is called by."""
        return cls(name.function, name.file, name.line, name.note, name.source)


class Bar(Struct, frozen=True):
    """A bar as long as this part, 0.0 to 1.0, of the room there is (of a bounded length)."""

    part: float


Words = str | Place | Bar
Below = tuple[tuple[Place, Style], ...]


class Heading(Struct, frozen=True):
    """Opens a section. Phrases are joined with commas; a line breaks between two of them."""

    phrases: tuple[Words, ...]


class Pairs(Struct, frozen=True):
    """Names with their values, one a line, the values aligned."""

    rows: tuple[tuple[str, str], ...]


class Row(Struct, frozen=True):
    """A table's row: a cell a column, and more lines under the last of them (callers of a place).

    `below` has a style a line, so that what matters stands out among what does not.
    """

    cells: tuple[Words, ...]
    below: Below = ()
    style: Style = "plain"


class Table(Struct, frozen=True):
    """Columns that are as wide as their widest cell, but for the last, which takes what is left.

    `spare` are columns that one can do without: they go, in this order, while the last one is
    narrower than its widest cell and than `least`.
    """

    titles: tuple[str, ...]
    aligns: tuple[Align, ...]
    rows: tuple[Row, ...]
    spare: tuple[int, ...] = ()
    least: int = 36


class Beside(Struct, frozen=True):
    """Tables one beside the other where there is room, else one below the other."""

    tables: tuple[Table, ...]


class Note(Struct, frozen=True):
    """A sentence or two; `warning` says that a number above may be wrong."""

    text: str
    level: Level = "note"


class Picture(Struct, frozen=True):
    """Lines as they are: of a width that was made for the sink's."""

    lines: tuple[Line, ...]


Block = Heading | Pairs | Table | Beside | Picture | Note
Document = tuple[Block, ...]


class Answer(Record, frozen=True):
    """A whole result. `print` writes the text that its command writes, and a notebook shows it."""

    def document(self) -> Document:
        """The report in headings, tables and notes, the common source of the text and the HTML."""
        raise NotImplementedError

    def __str__(self) -> str:
        # late: most results are not printed
        from memreplay.render.plain import render_plain
        from memreplay.width import terminal_width

        return render_plain(self.document(), width=terminal_width())

    def _repr_html_(self) -> str:
        from memreplay.render.html import render_html  # late: it's for notebooks

        return render_html(self.document())
