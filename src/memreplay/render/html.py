"""Write a document as short HTML in a notebook's own style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.document import Bar, Beside, Heading, Note, Pairs, Picture, Place
from memreplay.render.fit import fit_place, lines_below
from memreplay.texts import html_text

if TYPE_CHECKING:
    from memreplay.render.document import Block, Document, Row, Table, Words

WIDTH = 100  # width of a location, in characters
MOST_TEXT = 800  # maximum length of a sentence or cell, in characters
MOST_ROWS = 30  # maximum number of rows per table
MOST_BLOCKS = 60
_BAR = 10


def render_html(document: Document) -> str:
    """Return the document as a `<div>`. Long tables and texts are cut with a note; `print` doesn't
    cut them.
    """
    parts = [_block(block) for block in document[:MOST_BLOCKS]]
    if len(document) > MOST_BLOCKS:
        parts.append("<p>… (print shows all)</p>")
    return "\n".join(["<div>", *parts, "</div>"])


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<p><strong>{_text(', '.join(map(_words, block.phrases)))}</strong></p>"
    if isinstance(block, Pairs):
        rows = (
            f"<tr><th>{_text(name)}</th><td>{_text(said)}</td></tr>" for name, said in block.rows
        )
        return "\n".join(["<table>", *rows, "</table>"])
    if isinstance(block, Note):
        return f"<p><em>{block.level}:</em> {_text(block.text)}</p>"
    if isinstance(block, Picture):
        lines = ("".join(text for text, _ in line) for line in block.lines[:MOST_ROWS])
        return f"<pre>{chr(10).join(map(_text, lines))}</pre>"
    tables = block.tables if isinstance(block, Beside) else (block,)
    return "\n".join(map(_table, tables))


def _words(words: Words) -> str:
    if isinstance(words, Place):
        return fit_place(words, WIDTH)
    return "█" * round(words.part * _BAR) if isinstance(words, Bar) else words


def _text(text: str) -> str:
    """Escape and shorten text, because names may contain markup and be very long."""
    return html_text(text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…")


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(title)}</th>" for title in table.titles)
    lines = ["<table>", f"<tr>{head}</tr>"]
    lines += (_row(row, table) for row in table.rows[:MOST_ROWS])
    left = len(table.rows) - MOST_ROWS
    if left > 0:
        lines.append(f'<tr><td colspan="{len(table.titles)}">… {left:,} more</td></tr>')
    return "\n".join([*lines, "</table>"])


def _row(row: Row, table: Table) -> str:
    cells = [_text(_words(cell)) for cell in row.cells]
    cells[-1] = "<br/>".join([cells[-1], *map(_text, lines_below(row, _words))])
    said = (
        f'<td style="text-align: {align}">{cell}</td>'
        for align, cell in zip(table.aligns, cells, strict=True)
    )
    return f"<tr>{''.join(said)}</tr>"
