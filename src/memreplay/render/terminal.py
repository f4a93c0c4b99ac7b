"""Writes a document in colour for a terminal, through rich."""

from __future__ import annotations

from memreplay.render.document import Document, Hue
from memreplay.render.layout import lay_out

# The terminal's own eight colours: they follow the reader's theme, light or dark.
_STYLES: dict[Hue, str] = {
    "plain": "",
    "strong": "bold",
    "dim": "dim",
    "warning": "bold yellow",
    "hue1": "cyan",
    "hue2": "yellow",
    "hue3": "green",
    "hue4": "magenta",
    "hue5": "red",
    "hue6": "blue",
    "area0": "reverse dim",
    "area1": "reverse cyan",
    "area2": "reverse yellow",
    "area3": "reverse green",
    "area4": "reverse magenta",
    "area5": "reverse red",
    "area6": "reverse blue",
}


def render_terminal(document: Document, *, width: int) -> str:
    """The lines of `render_plain` with ANSI styles; the environment plays no part in it."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=True,
        force_jupyter=False,  # in a notebook, too, this is text
        color_system="standard",
        _environ={},
    )
    for line in lay_out(document, width):
        text = Text.assemble(*((part, _STYLES[style]) for part, style in line))
        text.rstrip()
        console.print(text, soft_wrap=True)  # the lines are laid out: rich must not wrap them again
    return out.getvalue().rstrip("\n")
