"""Writes results to stdout, in the form that fits what stdout is."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from memreplay.reports.document import Document

PIPE_WIDTH = 100


def render_document(document: Document) -> str:
    """The document as text, coloured or plain, as wide as COLUMNS says or the terminal is."""
    width = terminal_width()
    if wants_colour():
        from memreplay.reports.terminal import render_terminal

        return render_terminal(document, width=width)
    from memreplay.reports.plain import render_plain

    return render_plain(document, width=width)


def terminal_width() -> int:
    """COLUMNS, else the width of the terminal that stdout is, else PIPE_WIDTH."""
    # As shutil.get_terminal_size, which would import bz2 and lzma for it.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or PIPE_WIDTH
    except OSError:
        return PIPE_WIDTH


def wants_colour() -> bool:
    """Whether stdout is a terminal; NO_COLOR, then FORCE_COLOR, overrule it when not empty."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Write `text` as lines, with `?` for what stdout's encoding lacks, and flush."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # click would strip the colours that FORCE_COLOR asked for; wants_colour() has decided already.
    click.echo(text.encode(encoding, "replace").decode(encoding), color=True)
