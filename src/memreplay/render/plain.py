"""Write a document as plain text for pipes, files and monochrome terminals."""

from __future__ import annotations

from memreplay.render.document import Document
from memreplay.render.layout import lay_out


def render_plain(document: Document, *, width: int) -> str:
    """Return lines of at most `width` cells, without trailing spaces."""
    lines = ("".join(text for text, _ in line).rstrip() for line in lay_out(document, width))
    return "\n".join(lines)
