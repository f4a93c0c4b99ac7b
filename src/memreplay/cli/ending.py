"""What is undone when a signal ends the process: files that are not whole yet."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_undoings: list[Callable[[], object]] = []


@contextmanager
def undone_by_signals(undo: Callable[[], object]) -> Iterator[None]:
    """`undo` is called when a signal ends the process in here; at any point, even in `undo`."""
    _undoings.append(undo)
    try:
        yield
    finally:
        _undoings.remove(undo)


def take_signals() -> None:
    """SIGTERM and SIGHUP undo what is half done, and end the process with 128 + their number; not
    where they are ignored (nohup).

    No exception is raised for them: it would come anywhere in any module, where a lock of Python's
    own may be left taken for good, and wait for threads that need it.
    """
    taken = [
        number
        for number in (getattr(signal, "SIGTERM", None), getattr(signal, "SIGHUP", None))
        if number is not None and signal.getsignal(number) == signal.SIG_DFL
    ]

    def end(number: int, _frame: object) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        for undo in reversed(_undoings):
            with suppress(Exception):
                undo()
        os._exit(128 + number)

    for number in taken:
        signal.signal(number, end)
