"""Convert plain text to Markdown: mark options and code, and link pages."""

from __future__ import annotations

import html
import re
from pathlib import Path

from memreplay.texts import markdown_text

DOCS = Path(__file__).resolve().parents[2] / "docs"
# Parts of a text that aren't prose: code in backquotes, a link to a page of docs/, an option
# (`--salvage`), a path (docs/leaks.md), and `memreplay help leaks`.
_TOKEN = re.compile(
    r"``(?P<double>[^`]+)``|`(?P<code>[^`]+)`|\[(?P<text>[^]]+)\]\((?P<link>[^)\s]+\.md[^)\s]*)\)"
    r"|(?<![\w-])(?P<option>--[a-z][a-z-]*[a-z])(?![\w-])"
    r"|docs/(?P<page>\w+)\.md|memreplay help (?P<help>\w+)"
)


def marked(text: str) -> str:
    """Return a paragraph of help or of a docstring as one line of Markdown."""
    text = " ".join(text.split())
    found = []
    at = 0
    for match in _TOKEN.finditer(text):
        found.append(markdown_text(text[at : match.start()]) if match.start() > at else "")
        found.append(_token(match))
        at = match.end()
    return "".join(found) + (markdown_text(text[at:]) if at < len(text) else "")


def _token(match: re.Match[str]) -> str:
    if match["link"]:
        return f"[{match['text']}](../{match['link']})"
    if match["page"]:
        return _to(match["page"], match["page"])
    if match["help"]:
        return _to(match["help"], code(match[0]))
    return code(match["double"] or match["code"] or match["option"])


def _to(page: str, text: str) -> str:
    return f"[{text}](../{page}.md)" if (DOCS / f"{page}.md").exists() else text


def code(text: str) -> str:
    """Return code for a table cell. A bar would end the cell, and Markdown dialects escape it
    differently, so it becomes HTML."""
    text = " ".join(text.split())
    if "|" not in text:
        return f"`{text}`"
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def table(*rows: tuple[str, ...]) -> str:
    """Return a Markdown table; the first row is the header."""
    head, *others = rows
    lines = [head, tuple("---" for _ in head), *others]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
