"""What is asked of the terminal itself."""

from __future__ import annotations

import sys


def terminal_is_gone() -> bool:
    """Whether the one that keys come from was closed."""
    try:
        import termios
    except ImportError:  # Windows ends a program with its console
        return False
    assert sys.__stdin__ is not None
    try:
        termios.tcgetattr(sys.__stdin__.fileno())
    except termios.error:
        return True
    return False
