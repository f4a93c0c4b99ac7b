"""Something done before a process ends, however it does, but for SIGKILL and a crash.

Only the standard library is needed: a dry run loads this file by its path, in any Python.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn


def at_the_end(do: Callable[[], None]) -> None:
    """Let a function be called before this process ends. It may be called more than once."""
    import atexit
    import contextlib
    import signal
    from multiprocessing import util

    running, asked = 0, 0

    def call() -> None:
        """What is being done is not cut off by SIGTERM: the process ends by it afterwards."""
        nonlocal running
        running += 1
        try:
            do()
        finally:
            running -= 1
            if asked and not running:
                ended_by(asked)

    def ended_by(number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    atexit.register(call)
    # The processes of multiprocessing end without atexit.
    util.Finalize(None, call, exitpriority=100)
    end = os._exit

    def ended(status: int) -> NoReturn:
        """A program that ends at once, without what Python does then."""
        try:
            call()
        finally:
            end(status)

    os._exit = ended

    def terminated(number: int, _: FrameType | None) -> None:
        nonlocal asked
        asked = number
        if not running:
            call()

    def forked() -> None:
        """A child ends by SIGTERM as ever: Python's own handler may come too late for one that is
        about to wait for a lock, and pools end their workers so."""
        if signal.getsignal(signal.SIGTERM) is terminated:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Only the main thread may; elsewhere the process ends as ever.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, terminated)
            if hasattr(os, "register_at_fork"):  # Windows forks nothing
                os.register_at_fork(after_in_child=forked)
