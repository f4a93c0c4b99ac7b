"""Write a document in colour, for a terminal."""

from __future__ import annotations

from memreplay.render.document import Document, Hue, Line
from memreplay.render.layout import lay_out

# SGR codes for the eight colours that follow the user's theme.
_CODES: dict[Hue, str] = {
    "plain": "",
    "strong": "1",
    "dim": "2",
    "warning": "1;33",
    "hue1": "36",
    "hue2": "33",
    "hue3": "32",
    "hue4": "35",
    "hue5": "31",
    "hue6": "34",
    "area0": "2;7",
    "area1": "7;36",
    "area2": "7;33",
    "area3": "7;32",
    "area4": "7;35",
    "area5": "7;31",
    "area6": "7;34",
}


def render_terminal(document: Document, *, width: int) -> str:
    """Return the lines of `render_plain` with ANSI styles."""
    return "\n".join(_coloured(line) for line in lay_out(document, width))


def _coloured(line: Line) -> str:
    parts = list(line)
    while parts and not parts[-1][0].strip():  # drop spaces at the end of the line
        parts.pop()
    if parts:
        text, style = parts[-1]
        parts[-1] = (text.rstrip(), style)
    return "".join(
        f"\x1b[{_CODES[style]}m{text}\x1b[0m" if _CODES[style] else text for text, style in parts
    )
