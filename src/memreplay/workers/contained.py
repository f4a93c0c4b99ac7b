"""Run a query's work in a forked process that the kernel ends at limits on memory and time."""

from __future__ import annotations

import io
import os
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, NamedTuple, NoReturn

from memreplay.errors import MemreplayError, UsageError
from memreplay.render.units import size
from memreplay.workers.worker import be_the_first_to_go, bound_memory

Work = Callable[[IO[bytes]], object]

_BLOCK = 1 << 16
_LONGEST = 1 << 15  # bytes of a child's last message, which fits into a pipe
_GRACE_SECONDS = 1.0  # after this, the child ends itself if this process can't
_LOOK_SECONDS = 0.2  # how often to look at the clock
_LOOK_AT_MEMORY_SECONDS = 0.02  # how often a process without a memory limit checks its memory
_TOO_LARGE = 77  # the exit code of such a process
_DEFERS_AFTER_SECONDS = 1.0  # from then on, other processes go first
_DEFERS_BY = 5  # added to its nice value
# The first byte of a child's last message.
_DONE, _REFUSED, _NO_MEMORY, _BROKEN = b"d", b"r", b"m", b"b"


class Bounds(NamedTuple):
    """Limits of a query's process."""

    memory_bytes: int
    """Memory that the process may allocate after it was forked."""
    seconds: float
    threads: int
    """Threads that compute at the same time: their CPU time is limited as well."""
    defers: bool = False
    """Whether other processes go first if it takes long."""
    may_write: bool = False
    """Whether it may write files, and use the standard input and output."""
    memory_advice: str = "aggregate, or read fewer rows and columns"
    time_advice: str = "narrow it with where or limit"


def is_possible() -> bool:
    """Return whether this system can fork; Windows and browsers can't."""
    return hasattr(os, "fork") and hasattr(select, "poll")


class Contained:
    """Work in its own process; iterate over the bytes that it writes, then leave.

    Fork only from a process without threads that compute or hold locks. Raises UsageError if the
    work raises it, exceeds a limit or crashes; the message names the limit and what to do.
    """

    def __init__(self, work: Work, bounds: Bounds, *, gone: int | None = None) -> None:
        """`gone`: a descriptor that hangs up when the result is no longer needed."""
        self._bounds = bounds
        self._started = time.monotonic()
        self._output, output = os.pipe()
        self._last, last = os.pipe()
        self._gone = gone
        self._killed = ""
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python counts native threads, such as jemalloc's, which expect forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            _be_the_child(work, bounds, parent, output, last)
        os.close(output)
        os.close(last)

    def __enter__(self) -> Contained:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.close(self._output)
        os.close(self._last)
        if self._pid:
            os.waitpid(self._pid, 0)
            self._pid = 0

    def kill(self) -> None:
        """End the process at once."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def __iter__(self) -> Iterator[bytes]:
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._gone is not None:
            poll.register(self._gone, 0)  # poll always reports hang-ups
        defers = self._bounds.defers
        while True:
            left = self._bounds.seconds - (time.monotonic() - self._started)
            ready = poll.poll(max(0, min(left, _LOOK_SECONDS)) * 1000)
            spent = time.monotonic() - self._started
            if spent >= self._bounds.seconds or any(one == self._gone for one, _ in ready):
                self._killed = "late" if spent >= self._bounds.seconds else "gone"
                self.kill()
                break
            if defers and spent >= _DEFERS_AFTER_SECONDS:
                defers = False
                _defer(self._pid)
            if ready:
                piece = os.read(self._output, _BLOCK)
                if not piece:
                    break
                yield piece
        self._check()

    def _check(self) -> None:
        """Raise the error with which the process ended, if any."""
        if self._killed:  # freeing its memory can take a while, so don't wait for its end
            raise UsageError(self._words(0, is_out_of_memory=False))
        said = b""
        while piece := os.read(self._last, _BLOCK):
            said += piece
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        kind, words = said[:1], said[1:].decode(errors="replace")
        if kind == _DONE:
            return
        if kind == _REFUSED:
            raise UsageError(words)
        if kind == _BROKEN:
            raise RuntimeError(words)
        raise UsageError(
            self._words(os.waitstatus_to_exitcode(status), is_out_of_memory=kind == _NO_MEMORY)
        )

    def _words(self, code: int, *, is_out_of_memory: bool) -> str:
        bounds = self._bounds
        limit = size(bounds.memory_bytes)
        if self._killed == "gone":
            return "the query was stopped, because nobody waits for it"
        if self._killed == "late" or code == -signal.SIGALRM:
            took = f"took longer than {bounds.seconds:g} s and was stopped; {bounds.time_advice}"
        elif is_out_of_memory or code == _TOO_LARGE:
            took = f"needs more than {limit} of memory; {bounds.memory_advice}"
        elif code == -signal.SIGXCPU:
            seconds = _cpu_seconds(bounds)
            took = f"used more than {seconds} s of CPU time and was stopped; {bounds.time_advice}"
        elif code == -signal.SIGKILL:
            took = f"was killed, likely because memory ran out; {bounds.memory_advice}"
        else:
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            took = (
                f"crashed DuckDB ({name}), at its limit of {limit} of memory or by too much"
                f" nesting; {bounds.memory_advice}, or nest less"
            )
        return f"the query {took}"


def _cpu_seconds(bounds: Bounds) -> int:
    return int(bounds.seconds * bounds.threads) + 2


def _defer(pid: int) -> None:
    """Let other processes go first. Applies to all threads of the process's group."""
    with suppress(OSError):
        nice = min(os.getpriority(os.PRIO_PGRP, pid) + _DEFERS_BY, 19)
        os.setpriority(os.PRIO_PGRP, pid, nice)
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as session:
            session.write(f"{nice}")


def _be_the_child(work: Work, bounds: Bounds, parent: int, output: int, last: int) -> NoReturn:
    """Do the work within its bounds, and end the process."""
    said = b""
    try:
        _bound(bounds, parent, keeps=(output, last))
        with io.BufferedWriter(io.FileIO(output, "w"), _BLOCK) as out:
            work(out)
        said = _DONE
    except MemoryError:
        said = _NO_MEMORY
    except MemreplayError as error:
        said = _REFUSED + str(error).encode(errors="replace")
    except BrokenPipeError:
        pass
    except BaseException:
        with suppress(BaseException):
            said = _BROKEN + traceback.format_exc().encode(errors="replace")
    finally:
        with suppress(BaseException):
            os.write(last, said[:_LONGEST])
        os._exit(0)


def _bound(bounds: Bounds, parent: int, keeps: tuple[int, int]) -> None:
    import faulthandler
    import resource

    # The parent's handlers would undo the parent's work.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Ctrl-C reaches the parent, which ends this process. Linux shares out CPU time by session.
    os.setsid()
    end_with_parent(parent)
    faulthandler.disable()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (2,) if bounds.may_write else (0, 1, 2):
        if standard not in keeps:
            os.dup2(nothing, standard)
    be_the_first_to_go()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not bounds.may_write:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    cpu = _cpu_seconds(bounds)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    signal.setitimer(signal.ITIMER_REAL, bounds.seconds + _GRACE_SECONDS)
    if not bound_memory(bounds.memory_bytes):
        _watch_memory(bounds.memory_bytes)


def end_with_parent(parent: int) -> None:
    """Make the kernel end this process when its parent ends; only Linux can."""
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it has already ended
        os._exit(0)


def _watch_memory(more_bytes: int) -> None:
    """End this process soon after it takes more memory, where the kernel has no limit for it."""
    import resource
    import sys
    import threading

    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit + more_bytes

    def watch() -> None:
        while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit < most:
            time.sleep(_LOOK_AT_MEMORY_SECONDS)
        os._exit(_TOO_LARGE)

    threading.Thread(target=watch, daemon=True).start()
