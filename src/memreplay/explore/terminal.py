"""Query the terminal."""

from __future__ import annotations

import sys


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
