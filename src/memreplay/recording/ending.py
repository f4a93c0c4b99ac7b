"""Run functions before the process ends, unless SIGKILL or a crash ends it.

Needs only the standard library: a dry run loads this file by path in any Python.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

PATIENCE_S = 2.0  # how long the main thread has to handle SIGTERM before another thread does it
CREDENTIALS = 12  # size of Linux's struct ucred: process id, user, group
CARRIED = "memreplay_ending"  # the attribute of os._exit's replacement that has the `Ending`

_registered: list[int] = []  # empty until Python runs `ended` and `forked`, which stays so


def at_the_end(do: Callable[[], None], *, signals: bool = True, last: bool = False) -> None:
    """Call a function before this process ends. It may be called more than once.

    `signals`: also when SIGTERM ends it, unless the program has its own handler. `last`: after all
    others, even those that were added earlier.
    """
    shared().add(do, signals, last)


def no_longer(do: Callable[[], None]) -> None:
    """Undo `at_the_end`."""
    shared().remove(do)


def watch_again() -> None:
    """Receive SIGTERM again if the program has taken that away: an event loop does when it ends."""
    found = getattr(os._exit, CARRIED, None)
    if found is not None:
        found.watch_again()


def shared() -> Any:
    """Return this process's `Ending`.

    A dry run and a recording in it load this file separately, so os._exit's replacement carries it.
    """
    found = getattr(os._exit, CARRIED, None)
    return Ending() if found is None else found


def ended() -> None:
    """Call all functions."""
    found = getattr(os._exit, CARRIED, None)
    if found is not None:
        found.call()


def forked() -> None:
    """Forget everything in a forked child."""
    found = getattr(os._exit, CARRIED, None)
    if found is not None:
        found.forked()


class Ending:
    """Calls functions before a process ends, in the reverse order of `todo`."""

    def __init__(self) -> None:
        self.todo: list[Callable[[], None]] = []
        self.lock = threading.RLock()
        self.running, self.asked = 0, 0
        self.of = 0  # process id
        self.signals = False  # whether to handle SIGTERM
        self.wakes: tuple[Any, Any] | None = None  # receives the numbers of signals
        self.finalizer: Any = None
        self.exit = os._exit
        self.replace_exit()
        if not _registered:
            import atexit

            _registered.append(os.getpid())
            atexit.register(ended)
            if hasattr(os, "register_at_fork"):  # not on Windows
                os.register_at_fork(after_in_child=forked)

    def add(self, do: Callable[[], None], signals: bool, last: bool) -> None:
        if self.of != os.getpid():
            from multiprocessing import util

            self.of = os.getpid()
            # multiprocessing's child processes exit without running atexit.
            self.finalizer = util.Finalize(None, self.call, exitpriority=100)
        self.todo.insert(0 if last else len(self.todo), do)
        if signals:
            self.signals = True
            self.watch_again()

    def remove(self, do: Callable[[], None]) -> None:
        """Remove a function. After the last one, restore everything."""
        if do in self.todo:
            self.todo.remove(do)
        if self.todo or self.running:
            return
        self.signals = False
        if in_main_thread():
            if self.handles():
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.stop_watching()
        handled = self.wakes is not None or self.handles()  # only the main thread can undo that
        if not handled and getattr(os._exit, CARRIED, None) is self:
            os._exit = self.exit
            if self.finalizer is not None:
                self.finalizer.cancel()

    def call(self) -> None:
        """Run the functions, and delay SIGTERM until they return."""
        import contextlib

        with self.lock:
            self.running += 1
            try:
                with contextlib.ExitStack() as stack:
                    for do in self.todo:
                        stack.callback(do)
            finally:
                self.running -= 1
        if self.asked and not self.running:
            ended_by(self.asked)

    def replace_exit(self) -> None:
        """Replace os._exit(), which skips Python's cleanup."""
        end = self.exit

        def exited(status: int) -> NoReturn:
            try:
                self.call()
            finally:
                end(status)

        setattr(exited, CARRIED, self)
        # Programs may pickle it, which needs its place.
        exited.__module__, exited.__name__, exited.__qualname__ = "os", end.__name__, end.__name__
        os._exit = exited

    # --- SIGTERM ----------------------------------------------------------------------------------

    def handles(self) -> bool:
        """Return whether SIGTERM's handler is this object's."""
        return signal.getsignal(signal.SIGTERM) == self.terminated

    def terminated(self, number: int, _: FrameType | None) -> None:
        """Handle SIGTERM. Python calls this when the main thread next runs Python code."""
        self.asked = number
        if not self.running:
            self.call()

    def watch_again(self) -> None:
        """Handle SIGTERM, unless the program does."""
        if not (self.signals and in_main_thread()):
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.terminated)
        if self.handles():
            self.watch()

    def watch(self) -> None:
        """Handle SIGTERM in another thread if the main thread can't.

        When a rank fails, launchers terminate the others, which wait for that rank in C++ code and
        are killed before they run any Python. So a thread waits for the signal's number, which
        Python's C handler writes to a socket.
        """
        if sys.platform != "linux":
            return
        import socket

        if self.wakes is None:
            self.wakes = receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            # A process that was forked from this one may get a signal before it closes the socket,
            # so the kernel has to say who wrote.
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            sender.setblocking(False)
            threading.Thread(
                target=self.wait, args=(receiver,), name="memreplay", daemon=True
            ).start()
        before = signal.set_wakeup_fd(self.wakes[1].fileno(), warn_on_full_buffer=False)
        if before != -1:  # e.g. an event loop, which doesn't block in C++ code
            signal.set_wakeup_fd(before)

    def stop_watching(self) -> None:
        """Receive no more signals, and end the thread."""
        if self.wakes is None:
            return
        import socket

        (receiver, sender), self.wakes = self.wakes, None
        let_go(sender)
        receiver.shutdown(socket.SHUT_RDWR)  # the thread then receives nothing, and closes it
        sender.close()

    def wait(self, receiver: Any) -> None:
        while True:
            number, told, _, _ = receiver.recvmsg(1, 64)
            if not number:
                receiver.close()
                return
            sender = told[0][2][:4] if told and len(told[0][2]) == CREDENTIALS else b""
            ours = int.from_bytes(sender, sys.byteorder) == os.getpid()
            if not ours or number[:1] != bytes([signal.SIGTERM]):
                continue
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until and not self.asked:
                time.sleep(0.05)
            if not self.asked and self.handles():
                self.asked = signal.SIGTERM
                self.call()

    def forked(self) -> None:
        """Restore the default SIGTERM in a forked child, which has no functions to call.

        Pools terminate their workers with SIGTERM, and if a worker is about to wait for a lock,
        Python's handler may run too late.
        """
        import contextlib

        self.todo = []
        self.lock = threading.RLock()
        self.running = self.asked = 0
        self.signals = False
        with contextlib.suppress(ValueError):  # not the main thread
            if self.wakes is not None:
                let_go(self.wakes[1])
            if self.handles():
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.wakes = None  # closes the child's sockets; the parent's thread isn't in this process


def let_go(sender: Any) -> None:
    """Don't write signals' numbers to this socket any more."""
    before = signal.set_wakeup_fd(-1)
    if before not in (-1, sender.fileno()):
        signal.set_wakeup_fd(before)


def in_main_thread() -> bool:
    """Return whether this thread can set signal handlers."""
    return threading.current_thread() is threading.main_thread()


def ended_by(number: int) -> None:
    """End this process with a signal."""
    if in_main_thread():
        signal.signal(number, signal.SIG_DFL)
    else:
        import ctypes

        ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)
