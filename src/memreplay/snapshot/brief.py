"""Show possibly long results as short reprs at a prompt, and as HTML tables in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import NODEFAULT, Struct

from memreplay.texts import clean, html_text

MOST_TEXT = 80  # maximum length of a value, in characters
MOST_LINE = 400  # maximum length of a repr, in characters
MOST_ROWS = 10  # maximum number of rows of a table in a notebook


def line_of(record: Any) -> str:
    """Return a record as one line: numbers and short strings are shown, everything else is counted.

    Fields with default values are left out, so the line is for reading, not for eval().
    """
    said = [f"{name}={value_text(value)}" for name, value in _shown_fields(record)]
    line = clean(f"{type(record).__name__}({', '.join(said)})")
    return line if len(line) <= MOST_LINE else f"{line[: MOST_LINE - 2]}…)"


def html_of(record: Any) -> str:
    """Return an HTML table of a record's fields."""
    return html_table(type(record).__name__, _shown_fields(record))


def _shown_fields(record: Any) -> list[tuple[str, object]]:
    """Return the fields whose values aren't the defaults."""
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    needed = len(names) - len(defaults)
    found = []
    for at, name in enumerate(names):
        value = getattr(record, name)
        value = getattr(value, "records", value)  # Rows
        default = NODEFAULT if at < needed else defaults[at - needed]
        if make := getattr(default, "factory", None):
            default = make()
        if default is NODEFAULT or (value is not default and value != default):
            found.append((name, value))
    return found


def value_text(value: object) -> str:
    """Show a value in at most MOST_TEXT characters. Longer values are counted or cut."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{'x'.join(map(str, value.shape)) or 'one'} {value.dtype}>"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return _counted(value)
    # Only the start of a long string is needed.
    words = repr(value[: 2 * MOST_TEXT] if isinstance(value, (str, bytes)) else value)
    if len(words) <= MOST_TEXT:
        return words
    if isinstance(value, Struct):
        return f"{type(value).__name__}(…)"
    end = words[-1] if isinstance(value, (str, bytes)) else ""
    return f"{words[: MOST_TEXT - 2]}…{end}"


def _counted(value: Any) -> str:
    """Show the values if there are few and all are short, else only their number and type."""
    few = len(value) < MOST_TEXT  # more wouldn't fit and would take too long
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
    """Return a table of names and values. A sequence of results becomes a nested table."""
    lines = [f"<table><caption>{_escaped(title)}</caption>"]
    for name, value in rows:
        lines.append(f"<tr><th>{_escaped(name)}</th><td>{_cell(value)}</td></tr>")
    return "\n".join([*lines, "</table>"])


def html_rows(records: Sequence[Any]) -> str:
    """Return a table of the first records, and the number of others."""
    return _cell(records) if records else "<table></table>"


def html_columns(title: str, names: Sequence[str], columns: Sequence[Any], length: int) -> str:
    """Return the columns' first rows, and the number of others."""
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
    """Format a value for a table: strings without quotes, numbers with digit groups."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else value_text(value)


def _cell(value: object) -> str:
    if isinstance(value, Struct) and _shown_fields(value):
        value = (value,)
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], Struct):
        told = [
            dict(_shown_fields(one)) if isinstance(one, Struct) else {} for one in value[:MOST_ROWS]
        ]
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
    """Escape text for HTML.

    Names in a snapshot are untrusted and may contain markup, lone surrogates or text direction
    marks.
    """
    return html_text(text[: 10 * MOST_TEXT])
