"""Save the moments at which memory runs out."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

FIRST = 2  # failures whose snapshots are all kept; after these, only the last one is
# How long replacing the last failure's snapshot may take: seconds, and a share of the time.
SECONDS, SHARE = 30.0, 0.1
# Libraries' errors when memory runs out. PyTorch's observer doesn't see these.
TEXTS = ("out of memory", "STATUS_ALLOC_FAILED", "ncclUnhandledCudaError: Cuda failure 2")


class Failures:
    """The snapshots of failed requests: the first ones and the last one.

    `save` writes a snapshot, and gets the one that it replaces, if any. It returns the file's name,
    or None on failure.
    """

    def __init__(self, save: Callable[[str | None], str | None]) -> None:
        self.save = save
        self.saved: list[str] = []
        self.has_last = False  # whether the last failure has a snapshot
        self.raised: BaseException | None = (
            None  # the last failure's error, if the observer missed it
        )
        self.lock = threading.RLock()  # several threads may fail
        self.spent_s = self.since_s = 0.0

    def failed(self, error: BaseException | None = None) -> None:
        """Save the moment of a failure. `error`: given if PyTorch's observer wasn't called."""
        with self.lock:
            self.has_last = False
            begun = time.monotonic()
            replaces = self.saved[-1] if len(self.saved) > FIRST else None
            if replaces is None:
                self.since_s = begun
            elif self.spent_s > SECONDS + SHARE * (begun - self.since_s):
                return  # a program that retries all the time would only write snapshots
            found = self.save(replaces)
            if replaces is not None:
                self.spent_s += time.monotonic() - begun
            if found is None:
                return
            if replaces is not None:
                self.saved.pop()
            self.saved.append(found)
            self.has_last, self.raised = True, error

    def uncaught(self, error: BaseException | None) -> None:
        """Save the moment at which an exception ends a thread, unless the observer did."""
        if ran_out(error) and not self.has(error):
            self.failed(error)

    def has(self, error: BaseException | None) -> bool:
        """Return whether the last snapshot shows the moment of this exception."""
        errors = list(chain(error))
        return self.has_last and any(one is self.raised or from_allocator(one) for one in errors)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    seen: list[BaseException] = []
    while error is not None and not any(one is error for one in seen):
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def from_allocator(error: BaseException) -> bool:
    """Return whether PyTorch's allocator raised this, after it called the observer."""
    return type(error).__name__ == "OutOfMemoryError"


def ran_out(error: BaseException | None) -> bool:
    """Return whether an exception, or one that caused it, means that memory ran out."""
    return any(map(says_so, chain(error)))


def says_so(error: BaseException) -> bool:
    if from_allocator(error):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in TEXTS)


class Hooks:
    """Calls a function with each exception that ends the program or a thread."""

    def __init__(self, told: Callable[[BaseException | None], None]) -> None:
        self.told = told
        self.on = True
        self.program, self.thread = sys.excepthook, threading.excepthook
        sys.excepthook = self.of_program
        threading.excepthook = self.of_thread

    def of_program(self, kind: Any, error: Any, trace: Any) -> None:
        if self.on:
            self.told(error)
        self.program(kind, error, trace)

    def of_thread(self, args: Any) -> None:
        if self.on:
            self.told(args.exc_value)
        self.thread(args)

    def remove(self) -> None:
        """Restore the hooks, unless the program has replaced them."""
        self.on = False
        if sys.excepthook == self.of_program:
            sys.excepthook = self.program
        if threading.excepthook == self.of_thread:
            threading.excepthook = self.thread
