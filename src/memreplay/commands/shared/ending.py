"""What is undone when a signal ends the process: files that are not whole yet."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

_COMES_S = 0.1  # how long the main thread gets to run the handler
_UNDONE_S = 30.0  # how long it then waits for another thread to finish undoing

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

    ender = _Ender()
    for number in taken:
        signal.signal(number, ender.end)
    if taken and os.name == "posix":
        _watch(taken, ender)


class _Ender:
    """Ends the process, from whichever thread is first."""

    def __init__(self) -> None:
        self._main = _thread.get_ident()
        # The thread that does it, once one does. `setdefault` is one step: a lock and a number
        # would be two, and a second signal may come between them.
        self._owner: dict[str, tuple[int, object]] = {}

    def end(self, number: int, _frame: object = None) -> None:
        """Undo all, and end; returns where that has begun in this thread, or in the main one."""
        me = _thread.get_ident()
        mine = me, object()
        first = self._owner.setdefault("by", mine)
        if first is mine:
            for undo in reversed(_undoings):
                with suppress(Exception):
                    undo()
        elif first[0] == me or me != self._main:
            return
        else:
            # Not a step more: it would write what is being removed, and say that this went wrong.
            # The other may wait for a lock that is held here: then both would, for ever.
            time.sleep(_UNDONE_S)
        os._exit(128 + number)

    def end_soon(self, number: int) -> None:
        """As `end`, but the main thread gets a moment to do it itself: its work stops while it
        does."""
        time.sleep(_COMES_S)
        self.end(number)


def _watch(numbers: Sequence[int], ender: _Ender) -> None:
    """Have a thread end the process where Python's own handler would not come to it: it is called
    between two steps of the main thread, which may be about to wait in a call for whoever reads a
    pipe, or be far from done with one. Where a system gives no pipe or no thread there is only the
    handler."""
    try:
        read, write = os.pipe()
    except OSError:
        return
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def watch() -> None:
        while said := os.read(read, 1):
            if said[0] in numbers:
                ender.end_soon(said[0])

    try:
        _thread.start_new_thread(watch, ())
    except RuntimeError:
        signal.set_wakeup_fd(-1)
        os.close(read)
        os.close(write)
