"""Ends the process when nobody reads its output any more: an agent that is gone asks nothing."""

from __future__ import annotations

import os
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
