"""Start new interpreters that serve this process on a socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# A worker uses one processor. Libraries that start a thread for each processor would compete for
# it.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def start_python(module: str, descriptor: int) -> subprocess.Popen[bytes]:
    """Start a new interpreter that calls `main(descriptor)` of a module. Raises OSError."""
    said: list[Any] = sys.path  # some programs put path objects here, which Python ignores
    path = [one for one in said if isinstance(one, str)]
    code = f"import sys; sys.path[:] = {path!a}; from {module} import main; main({descriptor})"
    # Block SIGINT from the start. Otherwise a process that is still loading would print a
    # traceback.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[descriptor],
            env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def beside_standard(end: Connection) -> Connection:
    """Move a socket off descriptors 0 to 2.

    If this process has closed a standard stream, the worker's stderr would replace the socket and
    corrupt answers.
    """
    if end.fileno() > 2:
        return end
    import fcntl

    with end:
        return type(end)(fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
