"""The main program of a pool's worker: run items until the pool closes.

A worker is a new interpreter without the caller's threads, locks and `__main__` (which may lack a
guard).
"""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import suppress
from multiprocessing.connection import Connection

from memreplay.workers.running import attempt, in_a_line


def main(descriptor: int) -> None:
    """Serve items on a socket.

    The first message has the pickled function and a memory limit in bytes (None: unlimited); every
    other one is an item. First sends an empty answer when ready, or the reason why it can't run
    items. Then sends one answer per item.
    """
    # Ctrl-C reaches all of a terminal's processes, but the pool handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    _end_with(descriptor)
    be_the_first_to_go()
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
    except (EOFError, OSError):  # the pool has ended
        return
    except (MemoryError, KeyboardInterrupt):  # raised while receiving an item, or by the function
        os._exit(1)


def bound_memory(more_bytes: int) -> bool:
    """Limit how much more memory this process may allocate. Beyond that, allocations raise
    MemoryError.

    Limits writable memory (RLIMIT_DATA), not address space (RLIMIT_AS), because mapped files and
    reserved addresses take no memory. Returns False and does nothing without /proc.
    """
    import resource

    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            taken = next(line for line in status if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return False
    limit = int(taken.split()[1]) * 1024 + more_bytes
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    return True


def _end_with(descriptor: int) -> None:
    """End this process when the other end of the socket closes, even during an item."""
    import select
    import threading

    closed = select.poll()
    closed.register(descriptor, 0)  # poll always reports hang-ups

    def wait() -> None:
        closed.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def be_the_first_to_go() -> None:
    """Make the kernel's OOM killer pick this process before its parent."""
    with suppress(OSError):
        own = "/proc/self/oom_score_adj"
        with open(own, encoding="ascii") as score:
            more = min(int(score.read()) + 500, 1000)
        with open(own, "w", encoding="ascii") as score:
            score.write(str(more))
