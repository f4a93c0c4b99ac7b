"""Messages of the recorder while a program runs, through the logger `memreplay`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memreplay.recording.guarding import on_stderr
from memreplay.texts import clean

LOGGER = logging.getLogger("memreplay")

Say = Callable[[int, str], None]
"""Gets a level of `logging` and the words."""


def log(level: int, words: str) -> None:
    """Log the words. If the program has set up no logging at all, they go to stderr, as its user
    would otherwise not learn where the snapshot is."""
    if LOGGER.level or LOGGER.hasHandlers():
        LOGGER.log(level, "%s", clean(words))
    else:
        tell(level, words)


def tell(_level: int, words: str) -> None:
    """Write the message to stderr: for memreplay's own programs, whatever logging is set up."""
    on_stderr(clean(words))


def keep_quiet(_level: int, _words: str) -> None:
    """Say nothing."""
