"""Fit text into terminal cells: measure it, shorten it, wrap it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from memreplay.render.document import Place
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.render.document import Row, Words

ELLIPSIS = "…"
# Don't break lines between a number and its unit.
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "us", "s", "min", "h", "UTC")
_NARROW = 48  # narrower cells may have function and file on separate lines
_FURTHER_IN = "    "  # indentation of lines below a location, on top of the callers' indentation
_INSIDE = " > "  # between a module and one inside it
_WITHIN = " in "  # between what holds memory and its function
_OF_SENTENCES = " :(,"  # characters of C++ names and sentences, but not of a module's name
_HARD_SPACE = "\u00a0"


def cell_width(text: str) -> int:
    """Return a clean text's width in cells: wide characters take two, combining characters none."""
    if text.isascii() or text.replace(ELLIPSIS, "").isascii():
        return len(text)
    return sum(map(_char_width, text))


def cut_right(text: str, width: int) -> str:
    """Shorten text at the end, with an ellipsis, to at most `width` cells."""
    if cell_width(text) <= width:
        return text
    kept, room = 0, width - 1
    while kept < len(text) and (room := room - _char_width(text[kept])) >= 0:
        kept += 1
    return text[:kept] + ELLIPSIS


def cut_left(text: str, width: int) -> str:
    """Shorten text at the start, with an ellipsis, to at most `width` cells."""
    if cell_width(text) <= width:
        return text
    start, room = len(text), width - 1
    while start > 0 and (room := room - _char_width(text[start - 1])) >= 0:
        start -= 1
    return ELLIPSIS + text[start:]


def cut_name(name: str, width: int) -> str:
    """Shorten a function's or module's name to at most `width` cells.

    Paths through a model (`model.py:7 > gpt.py:5 > :12`, `layers.0.mlp`) keep their ends, because
    they differ there; other names keep their start.
    """
    if cell_width(name) <= width:
        return name
    if _INSIDE in name:
        return _cut_middle(name.split(_INSIDE), _INSIDE, width)
    if "." in name and not any(one in name for one in _OF_SENTENCES):
        return _cut_middle(name.split("."), ".", width)
    return cut_right(name, width)


def _cut_middle(parts: list[str], separator: str, width: int) -> str:
    """Keep the first part, unless it's long, and as many of the last ones as fit."""
    first = parts[0] + separator
    head = (first if 3 * cell_width(first) <= width else "") + ELLIPSIS + separator
    tail = ""
    for at in range(len(parts) - 1, 0, -1):
        longer = separator.join([_with_file(parts, at), *parts[at + 1 :]])
        if cell_width(head + longer) > width:
            break
        tail = longer
    return head + tail if tail else cut_left(_with_file(parts, len(parts) - 1), width)


def _with_file(parts: list[str], at: int) -> str:
    """Return a part of a path of lines with its file, which only the first line in it names."""
    if not parts[at].startswith(":"):
        return parts[at]
    above = next((one for one in parts[at::-1] if not one.startswith(":")), "")
    return above.rpartition(":")[0] + parts[at]


def fit_path(path: str, width: int) -> str:
    """Return the path, or as many of its last parts as fit: `…/models/gpt.py:12`."""
    if cell_width(path) <= width:
        return path
    # Start at the end, because a path from a file can have any number of parts.
    start, room = len(path), width - 1
    while start > 0 and (room := room - _char_width(path[start - 1])) >= 0:
        start -= 1
    slash = path.find("/", max(start, 1))
    if slash >= 0:
        return ELLIPSIS + path[slash:]
    return cut_left(path.rpartition("/")[2], width)


def fit_place(place: Place, width: int) -> str:
    """Return `function file:line note` in at most `width` cells.

    Shortens the path's leading parts first, then the note, then the end of the function and the
    start of the file name.
    """
    function, path, note = clean(place.function), clean(place.file), clean(place.note)
    if path and place.line:
        path += f":{place.line}"
    if note:
        # The note matters more than the start of the path, because stacks may differ only in the
        # note.
        room = width - cell_width(note) - 2
        name = ELLIPSIS + path[path.rfind("/") :] if "/" in path[1:] else path
        if cell_width(_beside(function, name)) <= room:
            return _beside(_fit_location(function, path, room), note)
    return _fit_location(function, path, width)


def place_lines(place: Place, width: int) -> list[str]:
    """Return the location in lines of at most `width` cells, with its source below.

    Narrow cells have function and file on separate lines if that avoids cutting a name.
    """
    room = width - len(_FURTHER_IN)
    source = [_FURTHER_IN + cut_right(line, room) for line in source_lines(place)]
    return _named_lines(place, width) + source


def source_lines(place: Words) -> list[str]:
    """Return the source line printed below a location, if known."""
    if isinstance(place, Place) and place.source:
        return [f"> {clean(place.source)}"]
    return []


def lines_below(row: Row, words: Callable[[Place], str]) -> list[str]:
    """Return the lines below a row's last cell: source and callers."""
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
            above, within, inside = function.rpartition(_WITHIN)
            if not within or cell_width(function) <= width:
                above, inside = function, ""
            first = fit_place(Place(above, note=place.note), width)
            below = Place(inside and f"in {inside}", place.file, place.line)
            return [first, _FURTHER_IN + fit_place(below, width - len(_FURTHER_IN))]
    return [fit_place(place, width)]


def _fit_location(function: str, path: str, width: int) -> str:
    whole = _beside(function, path)
    if cell_width(whole) <= width:
        return whole
    if not path:
        return cut_name(function, width)
    if not function:
        return fit_path(path, width)
    # Up to a limit, the file name matters more than the end of a long C++ signature.
    name = min(cell_width(path.rpartition("/")[2]) + 2, width * 2 // 3)
    function = cut_right(function, max(width - name - 2, width // 3))
    return _beside(function, fit_path(path, width - cell_width(function) - 2))


def _beside(*parts: str) -> str:
    return "  ".join(part for part in parts if part)


def wrap(text: str, width: int) -> list[str]:
    """Wrap text to `width` cells, breaking words only if necessary."""
    import textwrap

    lines = textwrap.wrap(_tied(clean(text)), width, break_on_hyphens=False) or [""]
    return [line.replace(_HARD_SPACE, " ") for line in lines]


def _tied(text: str) -> str:
    """Put a hard space between each number and its unit."""
    words = text.split(" ")
    return words[0] + "".join(
        f"{_HARD_SPACE if before[-1:].isdecimal() and _is_unit(word) else ' '}{word}"
        for before, word in pairwise(words)
    )


def _is_unit(word: str) -> bool:
    """Return whether a word is a unit, perhaps with punctuation after it."""
    for unit in _UNITS:
        if word.startswith(unit):
            after = word[len(unit) :][:1]
            if not (after.isalnum() or after == "_"):
                return True
    return False


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    import unicodedata  # imported late, because most names are ASCII

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
