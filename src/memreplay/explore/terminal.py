"""Query the terminal, and leave it as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from memreplay.commands.shared.ending import undone_by_signals

if TYPE_CHECKING:
    from textual.app import App

# Mouse, keyboard protocol and bracketed paste off, the usual screen, and the cursor shown.
_AS_BEFORE = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[<u\x1b[?2004l\x1b[?1004l"
    b"\x1b[?1049l\x1b[?25h"
)


def terminal_is_gone() -> bool:
    """Return whether the terminal that keys come from was closed."""
    try:
        import termios
    except ImportError:  # on Windows, programs end when their console does
        return False
    assert sys.__stdin__ is not None
    try:
        termios.tcgetattr(sys.__stdin__.fileno())
    except termios.error:
        return True
    return False


@contextmanager
def restored_by_signals() -> Iterator[None]:
    """Restore the terminal if a signal ends the process in this block."""
    try:
        import termios
    except ImportError:
        yield
        return
    assert sys.__stdin__ is not None
    keys = sys.__stdin__.fileno()
    before = termios.tcgetattr(keys)

    def restore() -> None:
        for file in (sys.__stderr__, sys.__stdout__):
            if file is not None and file.isatty():
                with suppress(OSError):
                    os.write(file.fileno(), _AS_BEFORE)
                break
        with suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSANOW, before)

    with undone_by_signals(restore):
        yield


def redraw_when_resumed(app: App[Any]) -> None:
    """Draw everything after Ctrl-Z and `fg`, because the shell used the screen."""
    app.app_resume_signal.subscribe(app, lambda _: app.refresh(layout=True))
