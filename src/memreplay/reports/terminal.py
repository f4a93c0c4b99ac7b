"""Writes a document in colour for a terminal, through rich."""

from __future__ import annotations

from memreplay.reports.document import Document, Style
from memreplay.reports.layout import lay_out

# The terminal's own eight colours: they follow the reader's theme, light or dark.
_STYLES: dict[Style, str] = {
    "plain": "",
    "strong": "bold",
    "dim": "dim",
    "warning": "bold yellow",
}


def render_terminal(document: Document, *, width: int) -> str:
    """The lines of `render_plain` with ANSI styles; the environment plays no part in it."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=True, color_system="standard", _environ={}
    )
    for line in lay_out(document, width):
        text = Text.assemble(*((part, _STYLES[style]) for part, style in line))
        text.rstrip()
        console.print(text, soft_wrap=True)  # the lines are laid out: rich must not wrap them again
    return out.getvalue().rstrip("\n")
