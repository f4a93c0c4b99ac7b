"""What a process of a local pool runs: one item after another, until the pool is gone.

It is a fresh interpreter: nothing of the program that asks is here, neither its `__main__`, which
may have no guard, nor its threads and locks.
"""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import suppress
from multiprocessing.connection import Connection

from memreplay.workers.running import attempt, in_a_line


def main(descriptor: int) -> None:
    """Answer on this socket. The first message is what to do, packed, and the bytes of memory that
    it may take (None: any); each later one is an item. Answers: an empty one when it is ready, or
    why it cannot be, then one an item."""
    # Ctrl-C in a terminal reaches all its processes: the pool sees to it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    _end_with(descriptor)
    _be_the_first_to_go()
    try:
        packed_work, memory_bytes = pickle.loads(connection.recv_bytes())
        try:
            work = pickle.loads(packed_work)
            if memory_bytes is not None:
                bound_memory(memory_bytes)
        except Exception as error:
            connection.send_bytes(in_a_line(error).encode())
            return
        connection.send_bytes(b"")
        while True:
            connection.send_bytes(attempt(work, connection.recv_bytes()))
    except (EOFError, OSError):  # the pool is gone
        return
    except (MemoryError, KeyboardInterrupt):  # of an item on its way; or the function raised it
        os._exit(1)


def bound_memory(more_bytes: int) -> None:
    """Let this process take so much memory beyond what it has; what is more is a MemoryError.

    It is what the process may write to that counts (RLIMIT_DATA), not its address space
    (RLIMIT_AS): mapped files and addresses that are only reserved take no memory. On systems
    without /proc nothing is bounded.
    """
    import resource

    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            taken = next(line for line in status if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return
    limit = int(taken.split()[1]) * 1024 + more_bytes
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _end_with(descriptor: int) -> None:
    """End this process as soon as the other end of the socket is closed, as it is when the pool's
    process ends, however it does; amid an item, too."""
    import select
    import threading

    closed = select.poll()
    closed.register(descriptor, 0)  # hang-ups are told without being asked for

    def wait() -> None:
        closed.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _be_the_first_to_go() -> None:
    """Where the system is out of memory, it is a worker that it kills, and not the pool."""
    with suppress(OSError):
        own = "/proc/self/oom_score_adj"
        with open(own, encoding="ascii") as score:
            more = min(int(score.read()) + 500, 1000)
        with open(own, "w", encoding="ascii") as score:
            score.write(str(more))
