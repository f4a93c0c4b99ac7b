"""Plot series with text characters (braille dots or letters), framed by axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from memreplay.render.axes import Tick
from memreplay.render.document import Hue, Line

if TYPE_CHECKING:
    from plotille import Canvas

_BLANK = chr(0x2800)  # the empty braille pattern
_FULL = 0x28FF
# Distance between a line's marks, in cells. It's wide enough for lines on top of each other to show
# their marks.
_MARK_EVERY = 18


class Column(NamedTuple):
    """A series' values within a column of dots."""

    low: int
    high: int
    bucket: int  # the bucket that contains the maximum


class Cell(NamedTuple):
    """A character in a plot and its colour."""

    text: str
    hue: Hue


Cells = list[list[Cell]]  # the top row first
EMPTY = Cell(" ", "plain")


class Buckets(NamedTuple):
    """The minimum and maximum of each bucket. Bucket i lies between edges i and i + 1."""

    edges: Sequence[int]
    lows: Sequence[int]
    highs: Sequence[int]


class Pen(NamedTuple):
    """A line's colour and mark. Lines take turns showing their marks."""

    hue: Hue
    mark: str
    turn: int


def columns(buckets: Buckets, start: int, whole: int, n: int) -> list[Column | None]:
    """Distribute buckets over `n` columns from `start`; None for empty columns.

    A column covers every bucket that overlaps with the column, so no extreme is lost.
    """
    found: list[Column | None] = [None] * n
    edges, lows, highs = buckets
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        first = min((edges[i] - start) * n // whole, n - 1)
        last = max(first, min(-((start - edges[i + 1]) * n // whole), n) - 1)
        for at in range(first, last + 1):
            was = found[at]
            if was is None:
                found[at] = Column(low, high, i)
            else:
                found[at] = Column(
                    min(was.low, low), max(was.high, high), i if high > was.high else was.bucket
                )
    return found


def area(series: Sequence[Column | None], low: int, high: int, rows: int, hue: Hue) -> Cells:
    """Plot dots up to each column's minimum, and every other dot up to its maximum."""
    canvas = _canvas(len(series) // 2, rows)
    heights = [_dots(column, low, high, rows) for column in series]
    for x in range(0, len(heights), 2):
        pair = heights[x : x + 2]
        solid = min((0 if one is None else one[0]) for one in pair) // 4
        for row in range(solid):
            canvas.fill_char(x, row * 4)
        for i, one in enumerate(pair):
            if one is None:
                continue
            for y in range(solid * 4, one[1]):
                if y < one[0] or y == one[1] - 1 or (x + i + y) % 2:
                    canvas.point(x + i, y)
    return _cells(canvas, hue)


def line(series: Sequence[Column | None], low: int, high: int, rows: int, pen: Pen) -> Cells:
    """Plot the maxima as a continuous line, with the pen's mark on it at intervals."""
    canvas = _canvas(len(series) // 2, rows)
    before = None
    for x, column in enumerate(series):
        dots = _dots(column, low, high, rows)
        if dots is None:
            before = None
            continue
        y = max(dots[1] - 1, 0)
        canvas.line(x if before is None else x - 1, y if before is None else before, x, y)
        before = y
    for x in range(2 * (2 + 3 * pen.turn), len(series), 2 * _MARK_EVERY):
        dots = _dots(series[x], low, high, rows)
        if dots is not None:
            canvas.point(x, max(dots[1] - 1, 0), marker=pen.mark)
    return _cells(canvas, pen.hue)


def stack(
    heaps: Sequence[Sequence[int] | None], high: int, rows: int, marks: str, hues: Sequence[Hue]
) -> Cells:
    """Plot layers as letters: each cell shows the layer at its middle, the first layer at the
    bottom.
    """
    canvas = _canvas(len(heaps), rows)
    for x, heap in enumerate(heaps):
        row, top = 0, 0
        for layer, size in enumerate(heap or ()):
            top += size
            while row < rows and (2 * row + 1) * high <= 2 * rows * top:
                canvas.point(2 * x, 4 * row, marker=marks[layer])
                row += 1
    by_mark = dict(zip(marks, hues, strict=False))
    return [
        [Cell(cell.text, by_mark.get(cell.text, "plain")) for cell in row]
        for row in _cells(canvas, "plain")
    ]


def overlay(layers: Iterable[Cells]) -> Cells:
    """Overlay plots, last on top; dots in the same cell are merged."""
    whole: Cells = []
    for layer in layers:
        if not whole:
            whole = layer
            continue
        whole = [
            [_together(below, above) for below, above in zip(row, over, strict=True)]
            for row, over in zip(whole, layer, strict=True)
        ]
    return whole


def framed(cells: Cells, y_ticks: Sequence[Tick], low: int, high: int) -> tuple[list[Line], int]:
    """Add the left axis. Return the lines and the axis's width."""
    rows = len(cells)
    labels: dict[int, str] = {}
    for tick in y_ticks:
        at = min(max(int((tick.at - low) * rows / (high - low)), 0), rows - 1)
        labels.setdefault(at, tick.label)
    margin = max(map(len, labels.values()), default=0)
    lines: list[Line] = []
    for number, row in enumerate(cells):
        label = labels.get(rows - 1 - number)
        edge = f"{label or '':>{margin}} {'┤' if label else '│'}"
        lines.append(((edge, "dim"), *_spans(row)))
    return lines, margin + 2


def foot(ticks: Sequence[tuple[int, str]], width: int, margin: int) -> list[Line]:
    """Return the lower axis of `width` cells with as many labels as fit."""
    rule = ["─"] * width
    labels = [" "] * (margin + width)
    free = 0
    for at, label in ticks:
        rule[at] = "┬"
        begin = min(max(margin + at - len(label) // 2, 0), margin + width - len(label))
        if begin < free:
            continue
        labels[begin : begin + len(label)] = label
        free = begin + len(label) + 2
    return [
        ((" " * (margin - 1) + "└" + "".join(rule), "dim"),),
        (("".join(labels).rstrip(), "dim"),),
    ]


def _canvas(width: int, rows: int) -> Canvas:
    """Return a canvas in dot coordinates: a cell is two dots wide and four dots high."""
    from plotille import Canvas

    return Canvas(width=width, height=rows, xmax=2 * width, ymax=4 * rows)


def _dots(column: Column | None, low: int, high: int, rows: int) -> tuple[int, int] | None:
    """Return the heights of minimum and maximum in dots; a positive value gets at least one."""
    if column is None:
        return None
    whole = high - low
    bottom, top = (min(max(v - low, 0), whole) for v in (column.low, column.high))
    return bottom * 4 * rows // whole, max(-(-top * 4 * rows // whole), int(top > 0))


def _cells(canvas: Canvas, hue: Hue) -> Cells:
    return [
        [EMPTY if text == _BLANK else Cell(text, hue) for text in row]
        for row in canvas.plot(linesep="\n").split("\n")
    ]


def _together(below: Cell, above: Cell) -> Cell:
    if above is EMPTY:
        return below
    dots = ord(below.text), ord(above.text)
    if all(0x2800 < code <= _FULL for code in dots):
        return Cell(chr(dots[0] | dots[1]), above.hue)
    # Dots must not hide marks.
    return above if below is EMPTY or not 0x2800 < dots[1] <= _FULL else below


def _spans(row: list[Cell]) -> Iterable[tuple[str, Hue]]:
    for hue, cells in groupby(row, key=lambda cell: cell.hue):
        yield "".join(cell.text for cell in cells), hue
