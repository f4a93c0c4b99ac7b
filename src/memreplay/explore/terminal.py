"""Query the terminal, and leave it as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from memreplay.commands.shared.ending import undone_by_signals
from memreplay.errors import MissingExtraError

if TYPE_CHECKING:
    from textual.app import App

    from memreplay.explore.curve import Chars

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


def check_textual(needs: str) -> None:
    """Raise MissingExtraError without Textual. `needs` says what needs it."""
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise MissingExtraError(needs, "explore")


def chars_of(asked: str) -> Chars:
    """Return the characters to draw with."""
    if asked != "auto":
        return asked  # type: ignore[return-value]
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        # With this setting, Python writes UTF-8 even if the terminal doesn't support it.
        return "ascii"
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return "blocks" if encoding.startswith("utf") else "ascii"


@contextmanager
def on_terminal() -> Iterator[None]:
    """Let Textual draw on the terminal, and restore it if a signal ends the process in this block.

    Textual draws on standard error, which may be a file, unlike standard output.
    """
    errors = sys.__stderr__
    if errors is None or not errors.isatty():
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    try:
        with _restored_by_signals():
            yield
    finally:
        sys.__stderr__ = errors  # type: ignore[misc]


@contextmanager
def _restored_by_signals() -> Iterator[None]:
    try:
        import termios
    except ImportError:
        yield
        return
    assert sys.__stdin__ is not None
    keys = sys.__stdin__.fileno()
    before = termios.tcgetattr(keys)

    def restore() -> None:
        with suppress(OSError, AttributeError, ValueError):
            os.write(sys.__stderr__.fileno(), _AS_BEFORE)  # type: ignore[union-attr]
        with suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSANOW, before)

    with undone_by_signals(restore):
        yield


def redraw_when_resumed(app: App[Any]) -> None:
    """Draw everything after Ctrl-Z and `fg`, because the shell used the screen."""
    app.app_resume_signal.subscribe(app, lambda _: app.refresh(layout=True))
