"""Fits text into terminal cells: measures, shortens, wraps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.render.document import Place
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.render.document import Row, Words

ELLIPSIS = "…"
# "24.2 GiB" and "0.4 s" stay together at the end of a line: wrapping sees no space in them.
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGTPE]iB|B|us|s|min|h|UTC)\b)")
_NARROW = 48  # cells in which a function and its file may have no room beside each other
_FURTHER_IN = "    "  # than a caller, which stands below, too
_HARD_SPACE = "\u00a0"


def cell_width(text: str) -> int:
    """Columns that a clean text takes in a terminal: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def cut_right(text: str, width: int) -> str:
    """The head of `text` and an ellipsis, in at most `width` cells."""
    if cell_width(text) <= width:
        return text
    kept, room = 0, width - 1
    while kept < len(text) and (room := room - _char_width(text[kept])) >= 0:
        kept += 1
    return text[:kept] + ELLIPSIS


def cut_left(text: str, width: int) -> str:
    """An ellipsis and the tail of `text`, in at most `width` cells."""
    if cell_width(text) <= width:
        return text
    start, room = len(text), width - 1
    while start > 0 and (room := room - _char_width(text[start - 1])) >= 0:
        start -= 1
    return ELLIPSIS + text[start:]


def fit_path(path: str, width: int) -> str:
    """The path, or the most of its last parts that fit: `…/models/gpt.py:12`."""
    if cell_width(path) <= width:
        return path
    # From the end on: a path from a file may have any number of parts.
    start, room = len(path), width - 1
    while start > 0 and (room := room - _char_width(path[start - 1])) >= 0:
        start -= 1
    slash = path.find("/", max(start, 1))
    if slash >= 0:
        return ELLIPSIS + path[slash:]
    return cut_left(path.rpartition("/")[2], width)


def fit_place(place: Place, width: int) -> str:
    """`function  file:line  note` in at most `width` cells.

    First the path's leading parts go, then the note, the function's tail, the file's head.
    """
    function, path, note = clean(place.function), clean(place.file), clean(place.note)
    if path and place.line:
        path += f":{place.line}"
    if note:
        # The note outlives the path's leading parts: stacks may differ in nothing else.
        room = width - cell_width(note) - 2
        name = ELLIPSIS + path[path.rfind("/") :] if "/" in path[1:] else path
        if cell_width(_beside(function, name)) <= room:
            return _beside(_fit_location(function, path, room), note)
    return _fit_location(function, path, width)


def place_lines(place: Place, width: int) -> list[str]:
    """The place in one line of at most `width` cells; where that is narrow, and would cut a name
    that has room in a line of its own, in two: what ran, then where. Below it is its source."""
    room = width - len(_FURTHER_IN)
    source = [_FURTHER_IN + cut_right(line, room) for line in source_lines(place)]
    return _named_lines(place, width) + source


def source_lines(place: Words) -> list[str]:
    """The line of source code that stands below a place in a table, if it is known."""
    if isinstance(place, Place) and place.source:
        return [f"> {clean(place.source)}"]
    return []


def lines_below(row: Row, words: Callable[[Place], str]) -> list[str]:
    """What stands below a row's last cell, a place by its words: source code, and callers."""
    lines = source_lines(row.cells[-1])
    for place, _ in row.below:
        lines += [words(place), *source_lines(place)]
    return lines


def _named_lines(place: Place, width: int) -> list[str]:
    if width < _NARROW and place.function and place.file:
        function, path = clean(place.function), clean(place.file)
        line = f":{place.line}" if place.line else ""
        name = path[path.rfind("/") + 1 :] + line
        short = name if name == path + line else f"{ELLIPSIS}/{name}"
        if cell_width(function) + 2 + cell_width(short) > width:
            above = fit_place(Place(function, note=place.note), width)
            where = fit_place(Place(file=place.file, line=place.line), width - len(_FURTHER_IN))
            return [above, _FURTHER_IN + where]
    return [fit_place(place, width)]


def _fit_location(function: str, path: str, width: int) -> str:
    whole = _beside(function, path)
    if cell_width(whole) <= width:
        return whole
    if not path:
        return cut_right(function, width)
    if not function:
        return fit_path(path, width)
    # The file's own name is worth more than the end of a long C++ signature, up to a point.
    name = min(cell_width(path.rpartition("/")[2]) + 2, width * 2 // 3)
    function = cut_right(function, max(width - name - 2, width // 3))
    return _beside(function, fit_path(path, width - cell_width(function) - 2))


def _beside(*parts: str) -> str:
    return "  ".join(part for part in parts if part)


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken between words, and inside one only where it must."""
    import textwrap

    tied = _UNIT.sub(_HARD_SPACE, clean(text))
    lines = textwrap.wrap(tied, width, break_on_hyphens=False) or [""]
    return [line.replace(_HARD_SPACE, " ") for line in lines]


def _char_width(char: str) -> int:
    import unicodedata  # late: most names are ASCII

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
