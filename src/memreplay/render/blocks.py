"""Turn a document into records for the HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memreplay.render.document import Bar, Beside, Heading, Note, Pairs, Picture, Place
from memreplay.render.fit import fit_place, lines_below
from memreplay.snapshot.record import Record
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.render.document import Block, Document, Row, Table, Words

WIDTH = 1000  # width of a location; browsers wrap lines, but names need a limit


class HeadingBlock(Record, frozen=True, tag_field="kind", tag="heading"):
    """Starts a section."""

    text: str


class PairsBlock(Record, frozen=True, tag_field="kind", tag="pairs"):
    """Names with values."""

    rows: tuple[tuple[str, str], ...]


class BlockRow(Record, frozen=True):
    """A row of a table."""

    cells: tuple[str, ...]
    below: tuple[str, ...]
    """Additional lines below the row's last cell."""


class TableBlock(Record, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """A table without its bar columns."""

    titles: tuple[str, ...]
    aligns: tuple[Literal["left", "right"], ...]
    rows: tuple[BlockRow, ...]


class NoteBlock(Record, frozen=True, tag_field="kind", tag="note"):
    """A sentence or two."""

    text: str
    warning: bool
    """Whether a number above the note may be wrong."""


class LinesBlock(Record, frozen=True, tag_field="kind", tag="lines"):
    """Preformatted lines: commands or plots."""

    lines: tuple[str, ...]


ReportBlock = HeadingBlock | PairsBlock | TableBlock | NoteBlock | LinesBlock


def blocks_of(document: Document) -> tuple[ReportBlock, ...]:
    """Convert a document's blocks. Tables that are side by side become separate tables, one after
    the other.
    """
    return tuple(one for block in document for one in _blocks(block))


def _blocks(block: Block) -> list[ReportBlock]:
    if isinstance(block, Heading):
        return [HeadingBlock(", ".join(place_text(phrase) for phrase in block.phrases))]
    if isinstance(block, Pairs):
        return [PairsBlock(tuple((clean(name), clean(said)) for name, said in block.rows))]
    if isinstance(block, Note):
        return [NoteBlock(clean(block.text), block.level == "warning")]
    if isinstance(block, Picture):
        return [LinesBlock(tuple("".join(clean(text) for text, _ in one) for one in block.lines))]
    tables = block.tables if isinstance(block, Beside) else (block,)
    return [_table(table) for table in tables]


def place_text(words: Words) -> str:
    """Return a cell as text, with locations as complete as possible."""
    if isinstance(words, Place):
        return fit_place(words, WIDTH)
    return "" if isinstance(words, Bar) else clean(words)


def _table(table: Table) -> TableBlock:
    # Leave out bars, because they repeat the numbers next to them.
    kept = [
        at
        for at in range(len(table.titles))
        if not any(isinstance(row.cells[at], Bar) for row in table.rows)
    ]
    return TableBlock(
        titles=tuple(clean(table.titles[at]) for at in kept),
        aligns=tuple(table.aligns[at] for at in kept),
        rows=tuple(_row(row, kept) for row in table.rows),
    )


def _row(row: Row, kept: list[int]) -> BlockRow:
    cells = tuple(place_text(row.cells[at]) for at in kept)
    return BlockRow(cells, tuple(lines_below(row, place_text)))
