"""Text as it may stand in Markdown."""

from __future__ import annotations

import re

from memreplay.render.fit import clean

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_AT_START = re.compile(r"^([#+=-]|\d+(?=[.)]))")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", ":": "&#58;"}


def markdown_line(text: str) -> str:
    """As `markdown_text`, for a line of its own: it is no heading, list or rule."""
    return _AT_START.sub(r"\\\1", markdown_text(text))


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, in a table too: no markup, link, mention or HTML."""
    escaped = _SPECIAL.sub(r"\\\1", clean(text))
    return re.sub("[&<>@]|:(?=//)", lambda match: _ENTITIES[match[0]], escaped)
