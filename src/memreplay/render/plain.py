"""Writes a document as plain text: for pipes, files and terminals without colour."""

from __future__ import annotations

from memreplay.render.document import Document
from memreplay.render.layout import lay_out


def render_plain(document: Document, *, width: int) -> str:
    """The document as lines of at most `width` cells, none with spaces at its end."""
    lines = ("".join(text for text, _ in line).rstrip() for line in lay_out(document, width))
    return "\n".join(lines)
