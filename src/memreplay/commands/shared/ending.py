"""Undo unfinished work, such as incomplete files, when a signal ends the process."""

from __future__ import annotations

# `_signal` avoids importing `signal`, which turns the numbers into enums and takes 1% of a short
# command's start.
import _signal  # type: ignore[import-not-found]
import _thread
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

_COMES_S = 0.1  # seconds that the main thread has to run the handler
_UNDONE_S = 30.0  # seconds to wait for another thread to finish undoing

_undoings: list[Callable[[], object]] = []


@contextmanager
def undone_by_signals(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if a signal ends the process at any point in this block, even while `undo` is
    running.
    """
    _undoings.append(undo)
    try:
        yield
    finally:
        _undoings.remove(undo)


def take_signals() -> None:
    """On Ctrl-C, SIGTERM and SIGHUP, undo unfinished work and exit with 128 + the signal, unless
    ignored (nohup).

    This doesn't raise an exception, which in some modules would leave one of Python's locks taken
    and then wait for threads that need the lock.
    """
    usual = (_signal.SIG_DFL, _signal.default_int_handler)
    there = (getattr(_signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
    taken = [one for one in there if one is not None and _signal.getsignal(one) in usual]

    ender = _Ender()
    for number in taken:
        _signal.signal(number, ender.end)
    if taken and os.name == "posix":
        _watch(taken, ender)


class _Ender:
    """Ends the process. Whichever thread comes first does it."""

    def __init__(self) -> None:
        self._main = _thread.get_ident()
        # The thread that ends the process, under the key "by". `setdefault` is atomic, whereas a
        # second signal could arrive between taking a lock and setting a number.
        self._owner: dict[str, tuple[int, object]] = {}

    def end(self, number: int, _frame: object = None) -> None:
        """Undo everything and exit. Return if this thread or the main thread is already doing
        so.
        """
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
            # Stop here, because continuing would write files that are being removed, and report an
            # error. Limit the wait, because the other thread may need a lock that this one holds.
            time.sleep(_UNDONE_S)
        os._exit(128 + number)

    def end_soon(self, number: int) -> None:
        """Like `end`, but let the main thread do it first if it can, which also stops that thread's
        work.
        """
        time.sleep(_COMES_S)
        self.end(number)


def _watch(numbers: Sequence[int], ender: _Ender) -> None:
    """Make a thread end the process if Python's handler can't run in time.

    Handlers run between bytecodes of the main thread, which may be blocked on a pipe or in a long
    call. If no pipe or thread can be created, there is only the handler.
    """
    try:
        read, write = os.pipe()
    except OSError:
        return
    os.set_blocking(write, False)
    _signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def watch() -> None:
        while said := os.read(read, 1):
            if said[0] in numbers:
                ender.end_soon(said[0])

    try:
        _thread.start_new_thread(watch, ())
    except RuntimeError:
        _signal.set_wakeup_fd(-1)
        os.close(read)
        os.close(write)
