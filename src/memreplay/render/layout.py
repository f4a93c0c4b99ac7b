"""Lay out a document as styled lines, for the plain and colour renderers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from msgspec.structs import replace

from memreplay.render.document import (
    Bar,
    Beside,
    Block,
    Document,
    Heading,
    Line,
    Note,
    Pairs,
    Picture,
    Place,
    Row,
    Style,
    Table,
    Words,
)
from memreplay.render.fit import (
    cell_width,
    cut_right,
    fit_place,
    place_lines,
    source_lines,
    wrap,
)
from memreplay.texts import clean, log_line

MIN_WIDTH = 40  # narrower tables have no room for the last column
_BAR_LAST = 36  # optional columns are dropped if bars in the last column would be narrower
_WIDE = 1000  # wider than any location
_MIN_BESIDE = 56  # minimum width of a table next to another one
_MAX_BAR = 40
_MOST_LINES = 6  # lines of a name that is wrapped
_GAP = "  "
_BETWEEN = "    "  # printed between two tables
T = TypeVar("T")


def lay_out(document: Document, width: int) -> list[Line]:
    """Lay out `document` in lines of at most `width` cells (at least 40)."""
    width = max(width, MIN_WIDTH)
    lines: list[Line] = []
    before: Block | None = None
    for block in document:
        if before is not None and not _belongs_to(before, block):
            lines.append(())
        if isinstance(block, Heading):
            lines += _lay_heading(block, width)
        elif isinstance(block, Pairs):
            lines += _lay_pairs(block, width)
        elif isinstance(block, Table):
            lines += _lay_table(block, width)
        elif isinstance(block, Beside):
            lines += _lay_beside(block, width)
        elif isinstance(block, Picture):
            lines += [tuple((clean(part), hue) for part, hue in one) for one in block.lines]
        else:
            lines += _lay_note(block, width)
        before = block
    return [_inert(line) for line in lines]


def _inert(line: Line) -> Line:
    """Make a line safe for logs, so that a CI runner doesn't read it as a command."""
    text = "".join(part for part, _ in line)
    inert = log_line(text)
    return line if inert == text else ((inert, line[0][1]),)


def _belongs_to(before: Block, block: Block) -> bool:
    """Return whether `block` follows `before` without an empty line."""
    if isinstance(before, Heading):
        return isinstance(block, (Pairs, Note))
    return isinstance(before, Note) and isinstance(block, Note)


def _lay_heading(heading: Heading, width: int) -> list[Line]:
    lines = [""]
    for number, phrase in enumerate(heading.phrases):
        last = number == len(heading.phrases) - 1
        # A phrase may take two lines, because at 60 cells, `at event 1,200,000 of 3,000,000` needs
        # them.
        room = width - 3 if isinstance(phrase, Place) else 2 * (width - 8)
        text = _fit(phrase, room) + ("" if last else ",")
        if not lines[-1].strip():
            lines[-1] += text
        elif cell_width(lines[-1]) + 1 + cell_width(text) <= width:
            lines[-1] += " " + text
        else:
            lines.append(_GAP + text)
    wrapped = [
        (_GAP if number else "") + part
        for line in lines
        for number, part in enumerate(_wrap_if_wider(line, width))
    ]
    return [((line, "strong"),) for line in wrapped]


def _wrap_if_wider(line: str, width: int) -> list[str]:
    return [line] if cell_width(line) <= width else wrap(line, width - len(_GAP))


def _lay_pairs(pairs: Pairs, width: int) -> list[Line]:
    names = [clean(name) for name, _ in pairs.rows]
    margin = max(map(cell_width, names), default=0) + len(_GAP)
    lines: list[Line] = []
    for name, (_, value) in zip(names, pairs.rows, strict=True):
        for number, part in enumerate(wrap(value, width - margin)):
            label = "" if number else name
            lines.append(((pad(label, margin, "left"), "dim"), (part, "plain")))
    return lines


def _lay_table(table: Table, width: int) -> list[Line]:
    head = Row(table.titles, style="dim")
    fit = partial(_fitted, {})
    widths = [
        max(cell_width(fit(row.cells[column], width)) for row in (head, *table.rows))
        for column in range(len(table.titles) - 1)
    ]
    margin = sum(widths) + len(_GAP) * len(widths)
    room = max(width - margin, 8)
    least = min(table.least, max(_whole(row.cells[-1]) for row in (head, *table.rows)))
    if table.aligns[-1] == "right":  # don't shorten a number in the last column, or its title
        room = least = max(cell_width(fit(row.cells[-1], _WIDE)) for row in (head, *table.rows))
    if table.spare and width - margin < least:
        return _lay_table(_without(table, table.spare[0]), width)
    widths.append(room)
    lines: list[Line] = []
    titles = [[(title, head.style) for title in wrap(table.titles[-1], room)]]
    places = titles + _places(table.rows, room, fit)
    for row, place in zip((head, *table.rows), places, strict=True):
        cells = [
            pad(fit(cell, cell_room), cell_room, align)
            for cell, cell_room, align in zip(row.cells, widths, table.aligns, strict=True)
        ]
        (first, style), *below = place
        if below or isinstance(row.cells[-1], Place):
            cells[-1] = first
        lines.append(((_GAP.join(cells).rstrip(), style),))
        lines += [((" " * margin + text, style),) for text, style in below]
    return lines


def _places(
    rows: Sequence[Row], room: int, fit: Callable[[Words, int], str]
) -> list[list[tuple[str, Style]]]:
    """Return the lines of each row's last cell, and the lines below it.

    If rows would look the same without a note, a note that doesn't fit gets its own line. If they
    still do, their names are wrapped instead of shortened.
    """
    found = []
    for row in rows:
        lines = [(text, row.style) for text in _last_cell(row.cells[-1], room, fit)]
        for place, style in row.below:
            lines += [(_GAP + text, style) for text in place_lines(place, room - len(_GAP))]
        found.append(lines)
    for some in _alike(found):
        notes = {last.note for i in some if isinstance(last := rows[i].cells[-1], Place)}
        for i in some if len(notes) > 1 else ():
            last = rows[i].cells[-1]
            if isinstance(last, Place) and last.note:
                at = len(found[i]) - sum(
                    len(place_lines(place, room - len(_GAP))) for place, _ in rows[i].below
                )
                note = cut_right(clean(last.note), room - len(_GAP))
                found[i].insert(at, (_GAP + note, rows[i].style))
    for some in _alike(found):
        if len({(rows[i].cells[-1], rows[i].below) for i in some}) > 1:
            for i in some:
                found[i] = _wrapped(rows[i], room)
    return found


def _last_cell(words: Words, room: int, fit: Callable[[Words, int], str]) -> list[str]:
    if isinstance(words, Place):
        return place_lines(words, room)
    whole = fit(words, _MOST_LINES * room) if isinstance(words, str) else fit(words, room)
    return [whole] if cell_width(whole) <= room else _hanging(whole, room)


def _hanging(text: str, room: int) -> list[str]:
    """Wrap text, with all lines but the first indented."""
    lines = wrap(text, room - 2 * len(_GAP))
    for i in range(1, len(lines)):
        # A log line that starts with a colon would be escaped, because it may be a command.
        if lines[i].startswith(":"):
            kept = lines[i - 1].rstrip(":")[:-1]
            lines[i] = lines[i - 1][len(kept) :] + lines[i]
            lines[i - 1] = kept
    return [cut_right(_GAP * bool(i) + line, room) for i, line in enumerate(lines)]


def _alike(found: Sequence[list[tuple[str, Style]]]) -> list[list[int]]:
    """Return the rows whose lines are the same, in groups of at least two."""
    rows: dict[tuple[tuple[str, Style], ...], list[int]] = {}
    for number, lines in enumerate(found):
        rows.setdefault(tuple(lines), []).append(number)
    return [some for some in rows.values() if len(some) > 1]


def _wrapped(row: Row, room: int) -> list[tuple[str, Style]]:
    """Return a row's lines with whole names, of a few lines each at most."""
    lines: list[tuple[str, Style]] = []
    for words, indent, style in (
        (row.cells[-1], "", row.style),
        *((place, _GAP, style) for place, style in row.below),
    ):
        whole = _fit(words, _MOST_LINES * room)
        texts = [
            *_hanging(whole, room - len(indent)),
            *(2 * _GAP + one for one in source_lines(words)),
        ]
        lines += [(cut_right(indent + text, room), style) for text in texts]
    return lines


def _whole(words: Words) -> int:
    """Return the width of an unshortened last cell, without its note."""
    if isinstance(words, Place):
        return cell_width(fit_place(replace(words, note=""), _WIDE))
    return _BAR_LAST if isinstance(words, Bar) else cell_width(words)


def _without(table: Table, column: int) -> Table:
    """Drop a table's first spare column."""

    def left(cells: tuple[T, ...]) -> tuple[T, ...]:
        return cells[:column] + cells[column + 1 :]

    return Table(
        left(table.titles),
        left(table.aligns),
        tuple(replace(row, cells=left(row.cells)) for row in table.rows),
        tuple(one - (one > column) for one in table.spare[1:]),
        table.least,
    )


def _lay_beside(beside: Beside, width: int) -> list[Line]:
    room = (width - len(_BETWEEN) * (len(beside.tables) - 1)) // len(beside.tables)
    if room < _MIN_BESIDE:
        parted = [line for table in beside.tables for line in ((), *_lay_table(table, width))]
        return parted[1:]
    lines: list[Line] = []
    for row in zip_longest(*(_lay_table(table, room) for table in beside.tables), fillvalue=()):
        line: Line = ()
        for number, part in enumerate(row):
            at = sum(cell_width(text) for text, _ in line)
            start = number * (room + len(_BETWEEN))
            if part:
                line += ((" " * (start - at), "plain"), *part) if start > at else part
        lines.append(line)
    return lines


def _lay_note(note: Note, width: int) -> list[Line]:
    prefix = "warning: " if note.level == "warning" else "note: "
    lines = wrap(prefix + note.text, width - len(_GAP))
    style: Style = "warning" if note.level == "warning" else "plain"
    first: Line = ((prefix, style), (lines[0][len(prefix) :], "plain"))
    return [first, *(((_GAP + line, "plain"),) for line in lines[1:])]


def _fitted(known: dict[tuple[int, int], str], words: Words, width: int) -> str:
    """Like `_fit`, but caches shortened locations by id. This works because the table keeps
    locations alive.
    """
    if isinstance(words, str) and len(words) <= width and words.isascii() and words.isprintable():
        return words
    if not isinstance(words, Place):
        return _fit(words, width)
    found = known.get((id(words), width))
    if found is None:
        found = known[id(words), width] = _fit(words, width)
    return found


def _fit(words: Words, width: int) -> str:
    """Fit a location or bar into `width`. Other text isn't cut."""
    if isinstance(words, Place):
        return fit_place(words, width)
    if isinstance(words, Bar):
        cells = round(words.part * min(width, _MAX_BAR))
        return "█" * cells if cells or not words.part else "▏"
    return cut_right(clean(words), width)


def pad(text: str, width: int, align: str) -> str:
    """Pad text to a cell's width; wider text is unchanged."""
    if text.isascii():
        return text.rjust(width) if align == "right" else text.ljust(width)
    space = " " * (width - cell_width(text))
    return space + text if align == "right" else text + space
