"""End the process when its output is closed, and on signals, even if it's busy."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Thread

from memreplay.commands.shared.errors import PIPE_CLOSED


def watch_output(number: int, end: Callable[[int], object] = os._exit) -> None:
    """Call `end` from a thread when nobody reads this descriptor any more.

    The SDK would only notice when it writes, and would then still wait for its input to end.
    """
    import select

    if not hasattr(select, "poll"):  # not on Windows
        return
    # The SDK redirects the original descriptor.
    watched = os.dup(number)

    def watch() -> None:
        poll = select.poll()
        poll.register(watched, 0)  # poll always reports errors and hang-ups
        poll.poll()
        end(PIPE_CLOSED)

    Thread(target=watch, daemon=True).start()


def end_at_signals() -> None:
    """Restore default signal handling.

    Python's handlers would wait for code that holds the GIL. The default ones end the process at
    once, which is safe, because no output can be left half-written.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
