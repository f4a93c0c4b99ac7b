"""Open a page in a browser, or say how to open it elsewhere."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from memreplay.commands.shared.errors import say


def open_page(path: str) -> None:
    """Open the page, or print to stderr why it can't be opened."""
    words = open_or_explain(path)
    if words:
        say(words)


def open_or_explain(path: str) -> str:
    """Open the page. Return "", or why it can't be opened."""
    import platform
    import webbrowser

    whole = os.path.abspath(path)
    if not _has_display():
        # Without a display, webbrowser would start a text browser in this terminal.
        remote = shlex.quote(f"{platform.node()}:{whole}")
        return f"no display to open it on; copy it to your machine: scp {remote} ."
    if not webbrowser.open(Path(whole).as_uri()):
        return f"no browser found; open {whole} yourself"
    return ""


def _has_display() -> bool:
    """Return whether a window can be opened here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
