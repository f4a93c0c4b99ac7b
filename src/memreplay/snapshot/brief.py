"""Short reprs for a prompt, and tables for a notebook, of results that may be long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import NODEFAULT, Struct

from memreplay.texts import clean, html_text

MOST_TEXT = 80  # characters of one value
MOST_LINE = 400  # of a whole repr
MOST_ROWS = 10  # of a table in a notebook


def line_of(record: Any) -> str:
    """A record in one line: numbers and short texts as they are, the rest counted.

    What has its default is left out, so the line is to be read, and not to be evaluated.
    """
    said = [f"{name}={value_words(value)}" for name, value in _told(record)]
    line = clean(f"{type(record).__name__}({', '.join(said)})")
    return line if len(line) <= MOST_LINE else f"{line[: MOST_LINE - 2]}…)"


def html_of(record: Any) -> str:
    """A record as a table of its fields."""
    return html_table(type(record).__name__, _told(record))


def _told(record: Any) -> list[tuple[str, object]]:
    """The fields that do not have their defaults."""
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    needed = len(names) - len(defaults)
    found = []
    for at, name in enumerate(names):
        value = getattr(record, name)
        default = NODEFAULT if at < needed else defaults[at - needed]
        if make := getattr(default, "factory", None):
            default = make()
        if default is NODEFAULT or (value is not default and value != default):
            found.append((name, value))
    return found


def value_words(value: object) -> str:
    """A value in at most MOST_TEXT characters: what is longer is counted, or cut."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{'x'.join(map(str, value.shape)) or 'one'} {value.dtype}>"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return _counted(value)
    # Of a long text its begin is enough.
    words = repr(value[: 2 * MOST_TEXT] if isinstance(value, (str, bytes)) else value)
    if len(words) <= MOST_TEXT:
        return words
    if isinstance(value, Struct):
        return f"{type(value).__name__}(…)"
    end = words[-1] if isinstance(value, (str, bytes)) else ""
    return f"{words[: MOST_TEXT - 2]}…{end}"


def _counted(value: Any) -> str:
    """A few short values as they are; of others how many there are, and of what."""
    few = len(value) < MOST_TEXT  # more do not fit, and take long
    plain = few and all(isinstance(one, (int, float, str, type(None))) for one in value)
    if not value or (plain and not isinstance(value, dict)):
        words = repr(value)
        if len(words) <= MOST_TEXT:
            return words
    kinds = {type(one).__name__ for one in value}
    kind = f" {kinds.pop()}" if len(kinds) == 1 and not isinstance(value, dict) else ""
    name = "tuple" if isinstance(value, tuple) else type(value).__name__
    return f"<{name} of {len(value)}{kind}>"


# ---- HTML


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Names with their values; a sequence of results is a table of its own."""
    lines = [f"<table><caption>{_escaped(title)}</caption>"]
    for name, value in rows:
        lines.append(f"<tr><th>{_escaped(name)}</th><td>{_cell(value)}</td></tr>")
    return "\n".join([*lines, "</table>"])


def html_rows(records: Sequence[Any]) -> str:
    """Records as a table: the first of them, and how many more there are."""
    return _cell(records) if records else "<table></table>"


def html_columns(title: str, names: Sequence[str], columns: Sequence[Any], length: int) -> str:
    """The first rows of columns, and how many more there are."""
    rows = [list(column[:MOST_ROWS]) for column in columns]
    head = "".join(f"<th>{_escaped(name)}</th>" for name in names)
    lines = [f"<table><caption>{_escaped(title)}</caption>", f"<tr>{head}</tr>"]
    lines += [
        "<tr>" + "".join(f"<td>{_escaped(str(one))}</td>" for one in row) + "</tr>"
        for row in zip(*rows, strict=True)
    ]
    lines += _more(length, len(names))
    return "\n".join([*lines, "</table>"])


def _plain(value: object) -> str:
    """A value as a reader of a table wants it: texts without quotes, numbers in groups."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else value_words(value)


def _cell(value: object) -> str:
    if isinstance(value, Struct) and _told(value):
        value = (value,)
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], Struct):
        told = [dict(_told(one)) if isinstance(one, Struct) else {} for one in value[:MOST_ROWS]]
        names = list(dict.fromkeys(name for row in told for name in row))
        head = "".join(f"<th>{_escaped(name)}</th>" for name in names)
        lines = ["<table>", f"<tr>{head}</tr>"]
        for row in told:
            cells = (_escaped(_plain(row[name])) if name in row else "" for name in names)
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        return "\n".join([*lines, *_more(len(value), len(names)), "</table>"])
    if isinstance(value, Mapping) and value:
        lines = [
            f"<tr><th>{_escaped(str(key))}</th><td>{_escaped(_plain(one))}</td></tr>"
            for key, one in islice(value.items(), MOST_ROWS)
        ]
        return "\n".join(["<table>", *lines, *_more(len(value), 2), "</table>"])
    return _escaped(_plain(value))


def _more(length: int, width: int) -> list[str]:
    left = length - MOST_ROWS
    return [f'<tr><td colspan="{width}">… {left:,} more</td></tr>'] if left > 0 else []


def _escaped(text: str) -> str:
    """Text as HTML shows it. A name in a snapshot is whatever somebody wrote there: markup, half a
    character, one that turns the direction of what follows."""
    return html_text(text[: 10 * MOST_TEXT])
