"""Run work beside this thread if the system can: a browser has no threads or processes, and other
systems limit their number. Work that can't run beside is done at once.
"""

from __future__ import annotations

import sys
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor


def has_processes() -> bool:
    """Return whether this system can start processes; WebAssembly can't."""
    return sys.platform not in ("emscripten", "wasi")


def started(thread: Thread) -> bool:
    """Start a thread. Return False if the system can't create more threads."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def executor(threads: int) -> Executor:
    """Return an executor with this many threads, or one that runs everything at once."""
    tried = Thread(target=int)
    if not started(tried):
        from memreplay.io.inline import Inline

        return Inline()
    tried.join()
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads)
