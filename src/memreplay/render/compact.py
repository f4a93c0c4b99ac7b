"""Write a document for language models: one line per row, without alignment or repetition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.render.document import Bar, Beside, Heading, Note, Pairs, Picture, Place
from memreplay.render.fit import cut_name, cut_right, fit_path
from memreplay.render.units import percent
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.render.document import Block, Document, Row, Table, Words

# Maximum lengths. Paths are meant to be opened, so they are only cut if they're absurdly long. C++
# signatures can have a thousand characters.
FUNCTION, FILE, OTHER = 120, 200, 2000
_BETWEEN = " | "
_CALLED_BY = " < "


class CompactLine(Struct, frozen=True):
    """A line; for a table row, with the column titles."""

    text: str
    titles: str = ""


def compact_lines(document: Document) -> list[CompactLine]:
    """Return the document as lines; callers follow their call: `inner < outer`."""
    return [line for block in document for line in _block(block)]


def compact_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> list[CompactLine]:
    """Return a table of strings with overlong cells truncated."""
    head = _joined(titles)
    return [CompactLine(head), *(CompactLine(_joined(row), head) for row in rows)]


def _joined(cells: Iterable[str]) -> str:
    return _BETWEEN.join(cut_right(clean(cell), OTHER) for cell in cells).rstrip()


def _block(block: Block) -> Iterator[CompactLine]:
    if isinstance(block, Heading):
        yield CompactLine(", ".join(map(_words, block.phrases)))
    elif isinstance(block, Pairs):
        yield from (CompactLine(f"{clean(name)}: {clean(said)}") for name, said in block.rows)
    elif isinstance(block, Note):
        yield CompactLine(f"{block.level}: {clean(block.text)}")
    elif isinstance(block, Picture):
        for line in block.lines:
            yield CompactLine(clean("".join(text for text, _ in line)).rstrip())
    else:
        for table in block.tables if isinstance(block, Beside) else (block,):
            yield from _table(table)


def _table(table: Table) -> Iterator[CompactLine]:
    head = _BETWEEN.join(map(clean, table.titles)).rstrip()
    yield CompactLine(head)
    # Lines below a call are its callers; lines below anything else continue the cell.
    title = table.titles[-1]
    below = _CALLED_BY if "callers" in title or title.endswith("requested at") else " "
    for row in table.rows:
        yield CompactLine(_row(row, below), head)


def _row(row: Row, below: str) -> str:
    cells = _BETWEEN.join(map(_words, row.cells)).rstrip() + _source(row.cells[-1])
    return below.join((cells, *(_words(place) + _source(place) for place, _ in row.below)))


def _source(words: Words) -> str:
    """Return a location's source line, if known."""
    if isinstance(words, Place) and words.source:
        return f" `{clean(words.source)}`"
    return ""


def _words(words: Words) -> str:
    if isinstance(words, Bar):
        return percent(words.part)
    if not isinstance(words, Place):
        return cut_right(clean(words), OTHER)
    file = fit_path(clean(words.file), FILE)
    where = f"{file}:{words.line}" if file and words.line else file
    function, note = (cut_name(clean(one), FUNCTION) for one in (words.function, words.note))
    return " ".join(part for part in (function, where, note) if part)
