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
    """Ctrl-C, SIGTERM and SIGHUP undo what is half done, and end the process with 128 + their
    number; not where they are ignored (nohup).

    No exception is raised for them: it would come anywhere in any module, where a lock of Python's
    own may be left taken for good, and wait for threads that need it.
    """
    usual = (signal.SIG_DFL, signal.default_int_handler)
    there = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
    taken = [one for one in there if one is not None and signal.getsignal(one) in usual]

    def end(number: int, _frame: object) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        for undo in reversed(_undoings):
            with suppress(Exception):
                undo()
        os._exit(128 + number)

    for number in taken:
        signal.signal(number, end)
