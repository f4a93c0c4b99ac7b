"""The recorder's messages while a program runs, sent to the logger `memreplay`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memreplay.recording.guarding import on_stderr
from memreplay.texts import clean

LOGGER = logging.getLogger("memreplay")

Say = Callable[[int, str], None]
"""Called with a level of `logging` and a message."""


def log(level: int, words: str) -> None:
    """Log a message, or print it to stderr if logging isn't configured.

    Without this, the user wouldn't learn where the snapshot is.
    """
    if LOGGER.level or LOGGER.hasHandlers():
        LOGGER.log(level, "%s", clean(words))
    else:
        tell(level, words)


def tell(_level: int, words: str) -> None:
    """Print a message to stderr, regardless of logging. For memreplay's own programs."""
    on_stderr(clean(words))


def keep_quiet(_level: int, _words: str) -> None:
    """Ignore the message."""
