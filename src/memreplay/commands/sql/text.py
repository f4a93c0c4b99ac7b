"""Format a query's rows as an aligned table, and list the tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from memreplay.render.fit import cell_width, cut_right, fit_path
from memreplay.render.units import counted
from memreplay.texts import clean, log_line

NULL = "null"
_GAP = "  "
_NARROWEST = 12  # minimum width of a text column
_KEPT = 1 << 16  # number of strings cached per column
_MEASURED = 2_000  # number of first rows that determine the column widths

Column = Sequence[str | None]


def table_lines(
    names: Sequence[str],
    right: Sequence[bool],
    batches: Iterable[Sequence[Column]],
    width: int | None,
) -> Iterator[str]:
    """Yield table lines as rows arrive, from batches of text columns (None for null).

    `right`: whether each column is right-aligned because it's numeric. Text is cut so that lines
    fit into `width` if possible. If `width` is None, nothing is cut.
    """
    coming = iter(batches)
    first: list[Sequence[Column]] = []
    rows = 0
    for batch in coming:
        first.append(batch)
        rows += len(batch[0])
        if rows >= _MEASURED:
            break
    titles = [clean(name) for name in names]
    widths = [
        max(
            [cell_width(title), *(cell_width(cell) for batch in first for cell in _cells(batch[i]))]
        )
        for i, title in enumerate(titles)
    ]
    if width is not None:
        _narrow(widths, [_least(*one) for one in zip(titles, right, strict=True)], width)
    columns = [_Column(*one) for one in zip(widths, right, strict=True)]
    for batch in chain([[[title] for title in titles]], first, coming):
        padded = (column.padded(cells) for column, cells in zip(columns, batch, strict=True))
        for row in zip(*padded, strict=True):
            yield log_line(_GAP.join(row).rstrip())


def _cells(column: Column) -> Iterable[str]:
    """Return the distinct strings of a column."""
    return [NULL if text is None else clean(text) for text in set(column)]


class _Column(dict[str | None, str]):
    """Formats a column's text to a given width, with a cache."""

    def __init__(self, width: int, right: bool) -> None:
        super().__init__()
        self.width = width
        self.right = right

    def padded(self, column: Column) -> list[str]:
        if len(self) > _KEPT:
            self.clear()
        return [self[text] for text in column]

    def __missing__(self, text: str | None) -> str:
        cell = NULL if text is None else clean(text)
        if cell_width(cell) > self.width and not self.right:
            cell = fit_path(cell, self.width) if "/" in cell else cut_right(cell, self.width)
        pad = " " * (self.width - cell_width(cell))
        found = self[text] = pad + cell if self.right else cell + pad
        return found


def _least(title: str, right: bool) -> int:
    """Return a column's minimum width: numbers aren't cut, and neither are titles like `category`,
    unlike long expressions.
    """
    if right:
        return sys.maxsize
    return max(_NARROWEST, cell_width(title) if title.isidentifier() else 0)


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Shrink the widest columns until the table fits."""
    texts = [i for i, room in enumerate(widths) if room > least[i]]
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0 and texts:
        widest = max(widths[i] for i in texts)
        same = [i for i in texts if widths[i] == widest]
        next_width = max(
            *(least[i] for i in same), *(widths[i] for i in texts if widths[i] < widest), 0
        )
        part = min(widest - next_width, -(-over // len(same)))
        for i in same:
            widths[i] -= part
        over -= part * len(same)
        texts = [i for i in texts if widths[i] > least[i]]


def tables_text(tables: Sequence[tuple[str, int, Sequence[str]]], width: int) -> str:
    """List the tables with their names, numbers of rows, and columns with types."""
    lines: list[str] = []
    for name, rows, columns in tables:
        lines.append(f"{name}  {counted(rows, 'row')}")
        line = ""
        for column in columns:
            after = f"{line}, {column}" if line else f"  {column}"
            if line and cell_width(after) >= width:
                lines.append(line + ",")
                after = f"  {column}"
            line = after
        lines.append(line)
    return "\n".join(lines)
