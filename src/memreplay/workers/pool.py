"""Run items in local processes, each of which may crash without affecting the others."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memreplay.errors import MemreplayError, UsageError
from memreplay.io.parallel import has_processes
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
from memreplay.workers.spawning import beside_standard, start_python

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LOOK_SECONDS = 1.0  # how often to check that silent workers are still alive
_FALSE_STARTS = 3  # give up after this many workers in a row die before they're ready


def processors() -> int:
    """Return how many processors this process may use, given its affinity and container quota."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        count = os.cpu_count() or 1
    with suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as said:
            quota, period = said.read().split()
        count = min(count, -(-int(quota) // int(period)))  # "max" means no quota
    return max(count, 1)


def is_possible() -> bool:
    """Return whether this system supports the pool; Windows and browsers don't."""
    return has_processes() and hasattr(signal, "pthread_sigmask") and hasattr(select, "poll")


class LocalPool:
    """Local processes that run one item at a time.

    A crash only loses the item that the process was running. After all others, such an item is
    retried by itself, with all of the machine's memory. If that crashes as well, its status is
    `died`. An item that ran out of memory is also retried if its process had run others before, or
    if there is no memory limit, because other processes may then have taken the memory.

    Workers start in `run`, at most one per item, and stop when `run` or this process ends, however
    that happens. Ctrl-C doesn't reach them; this process stops them. Their stdout is dropped.
    Functions of `__main__` can't be used.

    Parameters
    ----------
    workers : int, optional
        Number of processes; default: the number of usable processors.
    memory_bytes : int, optional
        Memory that each process may allocate after the function's module is loaded. Allocating more
        raises MemoryError, and the item's status is `memory`. Only on Linux.

    Raises
    ------
    UsageError
        If workers or memory aren't positive.
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
        """Yield one `Done` per item as the items finish.

        Raises UsageError for a function that can't be pickled, MemreplayError if no process can
        start or load the function.
        """
        if getattr(work, "__module__", None) == "__main__":
            raise UsageError("workers can't import a function from __main__; move it to a module")
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
        """Stop all workers immediately."""
        for crew in self._crews:
            crew.end()


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    ready: bool = False
    at: int | None = None  # the current item
    is_used: bool = False  # whether it has already run an item


class _Crew:
    """The processes of one run."""

    def __init__(self, orders: bytes, items: Sequence[Any], *, is_bound: bool) -> None:
        self._orders = orders
        self._items = items
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._false_starts = 0
        self._is_bound = is_bound
        # items that may have run out of memory because of other items
        self.unsure: set[int] = set()

    def renew(self) -> None:
        """Stop the processes that have already run an item."""
        for worker in [one for one in self._workers if one.is_used]:
            self._dismiss(worker)

    def each(self, indices: Sequence[int], at_once: int) -> Iterator[Done[Any]]:
        """Run each of these items once, with at most this many processes."""
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
                # Send the next item before yielding, because the consumer may be slow.
                unsent = list(self._give(worker, left))
                if done is not None:
                    yield done
                yield from unsent

    def end(self) -> None:
        while self._workers:
            self._dismiss(self._workers[-1])
        self._selector.close()

    def _who_speaks(self) -> list[_Worker]:
        """Wait until workers have sent a message or died. Return those workers."""
        while True:
            ready = self._selector.select(_LOOK_SECONDS)
            if ready:
                return [key.data for key, _ in ready]
            # A closed socket usually shows that a worker died, unless one of its child processes
            # keeps it open.
            dead = [worker for worker in self._workers if worker.process.poll() is not None]
            if dead:
                return dead

    def _start(self) -> bool:
        """Start a worker. Return False if there can't be more."""
        from multiprocessing.connection import Pipe  # a browser doesn't have this package

        ours, theirs = map(beside_standard, Pipe())
        try:
            process = start_python("memreplay.workers.worker", theirs.fileno())
            worker = _Worker(process, ours)
            self._workers.append(worker)
        except OSError as error:
            ours.close()
            if self._workers:
                return False
            raise MemreplayError(f"can't start a worker: {in_a_line(error)}") from None
        finally:
            theirs.close()
        self._selector.register(ours, selectors.EVENT_READ, worker)
        with suppress(OSError):  # the worker is already dead, which will be noticed later
            ours.send_bytes(self._orders)
        return True

    def _give(self, worker: _Worker, left: deque[int]) -> Iterator[Done[Any]]:
        """Send an idle worker its next item. Yield items that can't be sent."""
        while left and worker.ready and worker.at is None:
            index = left.popleft()
            item = packed_item(index, self._items[index])
            if isinstance(item, Done):
                yield item
                continue
            worker.at = index
            with suppress(OSError):  # the worker is dead, which will be noticed later
                worker.connection.send_bytes(item)

    def _hear(self, worker: _Worker) -> Done[Any] | None:
        """Read a worker's answer. Returns None if it isn't about an item, or a `died` result if the
        worker closed the connection during an item.
        """
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
                    raise MemreplayError(f"workers exit before they are ready: {ended}") from None
            return None
        if not worker.ready:
            if said:
                raise MemreplayError(f"a worker can't start: {said.decode()}")
            worker.ready = True
            self._false_starts = 0
            return None
        assert index is not None
        worker.at = None
        done = heard(index, said)
        if done.status == "memory":
            if worker.is_used or not self._is_bound:
                self.unsure.add(index)
            self._dismiss(worker)  # its next item might lack the memory that leftover objects hold
        worker.is_used = True
        return done

    def _dismiss(self, worker: _Worker, *, wait_seconds: float = 0) -> str:
        """Stop a worker. Returns how it ended, if it ended within this time."""
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
        return f"{name}, maybe out of memory" if name == "SIGKILL" else name
