"""Run work beside this thread if the system can: a browser has no threads or processes, and other
systems limit their number. Work that can't run beside is done at once.
"""

from __future__ import annotations

import sys
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

T = TypeVar("T")


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


class Beside(Generic[T]):
    """One function, called in a separate thread, or at once if the system can't create one.

    An executor for it would take longer to import than a small simulation takes.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []
        self._error: Exception | None = None
        self._thread = Thread(target=self._run)
        if not started(self._thread):
            self._thread.run()

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except Exception as error:
            self._error = error

    def wait(self) -> None:
        """Wait until the function has returned or failed."""
        if self._thread.ident is not None:
            self._thread.join()

    def result(self) -> T:
        """Wait for the function, and return its result or raise its error."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]


def executor(threads: int) -> Executor:
    """Return an executor with this many threads, or one that runs everything at once."""
    tried = Thread(target=int)
    if not started(tried):
        from memreplay.io.inline import Inline

        return Inline()
    tried.join()
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads)
