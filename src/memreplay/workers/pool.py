"""Items on processes of this machine, each of which may end without the others."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from memreplay.errors import MemreplayError, UsageError
from memreplay.workers.running import (
    Done,
    R,
    T,
    heard,
    in_a_line,
    packed,
    packed_item,
    packed_work,
)

_LOOK_SECONDS = 1.0  # how often it is looked whether workers are alive that say nothing
_FALSE_STARTS = 3  # workers in a row that die before they are ready

# A worker is one processor's worth: libraries that start a thread for each would fight.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def processors() -> int:
    """How many processors this process may use: those it is bound to, within the quota of its
    container."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        count = os.cpu_count() or 1
    with suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as said:
            quota, period = said.read().split()
        count = min(count, -(-int(quota) // int(period)))  # "max" is no number
    return max(count, 1)


def is_possible() -> bool:
    """Whether this system has what the pool is made of; Windows has not."""
    return hasattr(signal, "pthread_sigmask") and hasattr(select, "poll")


class LocalPool:
    """Processes of this machine, one item at a time each.

    A process that dies takes nothing with it but the item that it was at. When all others are
    done, that item is done again with no other beside it, so that it has all of the machine's
    memory; where that kills its process as well, it is `died`. So is an item that has too little
    memory in a process that did others before, whose leavings may be in its way, and where memory
    has no bound, as it may be others that have it.

    Workers start with `run`, as many as there are items for, and end with it; and when this process
    ends, however it does. Ctrl-C does not reach them: it is for this process, and they end with it.
    What they print to stdout is dropped. Functions of `__main__` are not found there.

    Parameters
    ----------
    workers : int, optional
        How many processes; as many as there are processors to use if left out.
    memory_bytes : int, optional
        How much memory each may take beyond what it has when it is ready: the function's module
        and all that this imports are loaded then. What is more is a MemoryError, and the item's
        status `memory`. Linux alone knows such bounds.

    Raises
    ------
    UsageError
        No workers, or no memory.
    """

    def __init__(self, workers: int | None = None, *, memory_bytes: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise UsageError(f"a pool needs at least one worker, not {workers:,}")
        if memory_bytes is not None and memory_bytes < 1:
            raise UsageError(f"a worker needs memory, not {memory_bytes:,} bytes")
        self.workers = processors() if workers is None else workers
        self.memory_bytes = memory_bytes
        self._crews: list[_Crew] = []

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """One `Done` an item, in the order in which they end.

        Raises UsageError for a function that cannot be sent to a process, MemreplayError where no
        process can load it, or none can start.
        """
        if getattr(work, "__module__", None) == "__main__":
            raise UsageError("no process can load a function of __main__; put it into a module")
        is_bound = self.memory_bytes is not None
        crew = _Crew(packed((packed_work(work), self.memory_bytes)), items, is_bound=is_bound)
        self._crews.append(crew)
        again: list[int] = []
        try:
            for done in crew.each(range(len(items)), self.workers):
                if done.status == "died" or done.index in crew.unsure:
                    again.append(done.index)
                else:
                    yield done
            for index in again:
                crew.renew()
                yield from crew.each([index], 1)
        finally:
            self._crews.remove(crew)
            crew.end()

    def close(self) -> None:
        """End all workers, amid what they do."""
        for crew in self._crews:
            crew.end()


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    ready: bool = False
    at: int | None = None  # the item that it has
    is_used: bool = False  # it did others before


class _Crew:
    """The processes of one run."""

    def __init__(self, orders: bytes, items: Sequence[Any], *, is_bound: bool) -> None:
        self._orders = orders
        self._items = items
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._false_starts = 0
        self._is_bound = is_bound
        self.unsure: set[int] = set()  # items whose memory others may have had

    def renew(self) -> None:
        """End the processes that did anything."""
        for worker in [one for one in self._workers if one.is_used]:
            self._dismiss(worker)

    def each(self, indices: Sequence[int], at_once: int) -> Iterator[Done[Any]]:
        """These items, by so many processes and no others; each is tried once."""
        left = deque(indices)
        while len(self._workers) > at_once:
            self._dismiss(self._workers[-1])
        for worker in self._workers:
            yield from self._give(worker, left)
        while True:
            idle = sum(worker.at is None for worker in self._workers)
            for _ in range(min(at_once - len(self._workers), len(left) - idle)):
                if not self._start():
                    at_once = len(self._workers)
                    break
            if not left and idle == len(self._workers):
                return
            for worker in self._who_speaks():
                done = self._hear(worker)
                # The next before this one is handed out: whoever gets it may take his time.
                unsent = list(self._give(worker, left))
                if done is not None:
                    yield done
                yield from unsent

    def end(self) -> None:
        while self._workers:
            self._dismiss(self._workers[-1])
        self._selector.close()

    def _who_speaks(self) -> list[_Worker]:
        """Those with something to say, or that are dead, once there are any."""
        while True:
            ready = self._selector.select(_LOOK_SECONDS)
            if ready:
                return [key.data for key, _ in ready]
            # The end of a process is heard, unless one that it started keeps the socket open.
            dead = [worker for worker in self._workers if worker.process.poll() is not None]
            if dead:
                return dead

    def _start(self) -> bool:
        """One more; False where there may be no more than there are."""
        ours, theirs = map(_beside_standard, Pipe())
        number = theirs.fileno()
        said: list[Any] = sys.path  # in which some put paths, which Python passes over
        path = [one for one in said if isinstance(one, str)]
        code = (
            f"import sys; sys.path[:] = {path!a}; "
            f"from memreplay.workers.worker import main; main({number})"
        )
        # A worker is born deaf to Ctrl-C, or one that is still loading would have words for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
                env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ},
            )
            worker = _Worker(process, ours)
            self._workers.append(worker)
        except OSError as error:
            ours.close()
            if self._workers:
                return False
            raise MemreplayError(f"cannot start a worker: {in_a_line(error)}") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._selector.register(ours, selectors.EVENT_READ, worker)
        with suppress(OSError):  # it is dead already; that is heard
            ours.send_bytes(self._orders)
        return True

    def _give(self, worker: _Worker, left: deque[int]) -> Iterator[Done[Any]]:
        """The next item, to a worker that has none. Those that cannot be sent are done."""
        while left and worker.ready and worker.at is None:
            index = left.popleft()
            item = packed_item(index, self._items[index])
            if isinstance(item, Done):
                yield item
                continue
            worker.at = index
            with suppress(OSError):  # it is dead; that is heard
                worker.connection.send_bytes(item)

    def _hear(self, worker: _Worker) -> Done[Any] | None:
        """What a worker says, None if that is not of an item; its death if it says no more."""
        index = worker.at
        try:
            if not worker.connection.poll():
                raise EOFError
            said = worker.connection.recv_bytes()
        except (EOFError, OSError):
            ended = self._dismiss(worker, wait_seconds=1)
            if index is not None:
                return Done(index, None, "died", f"its worker ended twice: {ended}")
            if not worker.ready:
                self._false_starts += 1
                if self._false_starts == _FALSE_STARTS:
                    raise MemreplayError(f"workers end before they are ready: {ended}") from None
            return None
        if not worker.ready:
            if said:
                raise MemreplayError(f"a worker cannot begin: {said.decode()}")
            worker.ready = True
            self._false_starts = 0
            return None
        assert index is not None
        worker.at = None
        done = heard(index, said)
        if done.status == "memory":
            if worker.is_used or not self._is_bound:
                self.unsure.add(index)
            self._dismiss(worker)  # what is left of the item may be in its way
        worker.is_used = True
        return done

    def _dismiss(self, worker: _Worker, *, wait_seconds: float = 0) -> str:
        """End a worker, whatever it does. How it ended, if it did within this time."""
        self._workers.remove(worker)
        worker.ready = False
        with suppress(KeyError, ValueError):
            self._selector.unregister(worker.connection)
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(wait_seconds)
        code = worker.process.returncode
        worker.process.kill()
        worker.process.wait()
        worker.connection.close()
        if code is None:
            return "it closed its connection"
        if code >= 0:
            return f"exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{name}, maybe for want of memory" if name == "SIGKILL" else name


def _beside_standard(end: Connection) -> Connection:
    """The same socket, not in the place of a standard stream that this process has closed: there a
    worker's own would replace it, or what it says to stderr would be an answer."""
    if end.fileno() > 2:
        return end
    import fcntl

    with end:
        return Connection(fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
