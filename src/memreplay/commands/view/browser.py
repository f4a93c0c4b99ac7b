"""Opens a page in a browser, or says how to come by it where there is none."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from memreplay.commands.shared.errors import say


def open_page(path: str) -> None:
    """Opens it; where that cannot be, a line on stderr says so."""
    words = opened_words(path)
    if words:
        say(words)


def opened_words(path: str) -> str:
    """Opens it; why that cannot be, in words, else nothing."""
    import platform
    import webbrowser

    whole = os.path.abspath(path)
    if not _has_display():
        # What webbrowser finds without one would draw text over this terminal.
        return (
            "there is no display here to open it on; on your own machine:"
            f" scp {shlex.quote(f'{platform.node()}:{whole}')} ."
        )
    if not webbrowser.open(Path(whole).as_uri()):
        return f"no browser was found to open it; open {whole} in one"
    return ""


def _has_display() -> bool:
    """Whether a window can be opened here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
