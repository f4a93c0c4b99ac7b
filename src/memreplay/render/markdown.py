"""Write a document as Markdown for pull requests and issues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.document import Bar, Beside, Heading, Note, Pairs, Picture, Place
from memreplay.render.fit import fit_place, lines_below
from memreplay.texts import markdown_fence, markdown_line, markdown_text

if TYPE_CHECKING:
    from memreplay.render.document import Block, Document, Row, Table, Words

# Width of a location. Pages wrap lines, but a name with thousands of characters is useless.
WIDTH = 200
_BAR = 20


def render_markdown(document: Document, *, level: int = 3) -> str:
    """Return GitHub Markdown. The first heading has this `level`, the others are one level below
    it.
    """
    parts: list[str] = []
    for block in document:
        parts += _block(block, level if not parts else level + 1)
    return "\n\n".join(parts)


def _block(block: Block, level: int) -> list[str]:
    if isinstance(block, Heading):
        phrases = ", ".join(markdown_text(_words(phrase)) for phrase in block.phrases)
        return [f"{'#' * level} {phrases}"]
    if isinstance(block, Pairs):
        rows = (f"- **{markdown_text(name)}**: {markdown_text(said)}" for name, said in block.rows)
        return ["\n".join(rows)] if block.rows else []
    if isinstance(block, Note):
        return [f"> **{block.level}:** {markdown_line(block.text)}"]
    if isinstance(block, Picture):
        return [markdown_fence(["".join(text for text, _ in line) for line in block.lines])]
    tables = block.tables if isinstance(block, Beside) else (block,)
    return [_table(table) for table in tables]


def _words(words: Words) -> str:
    if isinstance(words, Place):
        return fit_place(words, WIDTH)
    if isinstance(words, Bar):
        return "█" * round(words.part * _BAR)
    return words


def _table(table: Table) -> str:
    marks = ["---:" if align == "right" else "---" for align in table.aligns]
    cells = [tuple(map(markdown_text, table.titles)), marks, *map(_row, table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _row(row: Row) -> list[str]:
    cells = [markdown_text(_words(cell)) for cell in row.cells]
    below = map(markdown_text, lines_below(row, _words))
    cells[-1] = "<br>".join((cells[-1], *below))
    return cells
