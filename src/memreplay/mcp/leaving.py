"""Ends the process when nobody reads its output any more, and at a signal, whatever it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Thread

from memreplay.commands.shared.errors import PIPE_CLOSED


def watch_output(number: int, end: Callable[[int], object] = os._exit) -> None:
    """Have a thread call `end` once nobody can read what is written to this descriptor.

    The SDK would see that when it writes, and then wait for its input to end all the same.
    """
    import select

    if not hasattr(select, "poll"):  # Windows
        return
    # A number of its own: the SDK lets this one mean something else.
    watched = os.dup(number)

    def watch() -> None:
        poll = select.poll()
        poll.register(watched, 0)  # errors and hang-ups are always told
        poll.poll()
        end(PIPE_CLOSED)

    Thread(target=watch, daemon=True).start()


def end_at_signals() -> None:
    """Let the signals that end a process do so by themselves: nothing is written that could be left
    half, and a handler of Python's waits for what holds the interpreter."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
