"""Run a function before the process ends, unless SIGKILL or a crash ends it.

Needs only the standard library: a dry run loads this file by path in any Python.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn


def at_the_end(do: Callable[[], None]) -> None:
    """Call a function before this process ends. It may be called more than once."""
    import atexit
    import contextlib
    import signal
    from multiprocessing import util

    running, asked = 0, 0

    def call() -> None:
        """Run the function, and delay SIGTERM until it returns."""
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
    # multiprocessing's child processes exit without running atexit.
    util.Finalize(None, call, exitpriority=100)
    end = os._exit

    def ended(status: int) -> NoReturn:
        """Replace os._exit(), which skips Python's cleanup."""
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
        """Restore the default SIGTERM in a forked child.

        Pools terminate their workers with SIGTERM, and if a worker is about to wait for a lock,
        Python's handler may run too late.
        """
        if signal.getsignal(signal.SIGTERM) is terminated:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Only the main thread can set signal handlers. If this is another thread, SIGTERM keeps its
        # default action.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, terminated)
            if hasattr(os, "register_at_fork"):  # not on Windows
                os.register_at_fork(after_in_child=forked)
