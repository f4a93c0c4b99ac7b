"""A command's processes: one, or one for each rank that runs."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Mapping, Sequence

from memreplay.errors import UsageError

_PAUSE = 0.05  # seconds between polls of several processes


class Children:
    """Processes that were started."""

    def __init__(
        self,
        command: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start one process for each environment. `stdout`, `stderr`: file descriptors; None for
        ours. Raises UsageError if that's impossible.
        """
        self._them: list[subprocess.Popen[bytes]] = []
        self._failed = 0  # the exit status of the first one that failed
        for environment in environments:
            try:
                child = subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr)
            except OSError as error:
                for one in self._them:
                    one.kill()
                raise UsageError(f"{command[0]} doesn't run: {error.strerror or error}") from None
            self._them.append(child)

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [child.pid for child in self._them]

    def wait(self, timeout: float = math.inf) -> int:
        """Return the exit status, which is that of the first process that failed, if any did. The
        others are then stopped, as torchrun does.

        Raises subprocess.TimeoutExpired.
        """
        until = time.monotonic() + timeout
        while True:
            running = [child for child in self._them if child.poll() is None]
            if not self._failed:
                self._failed = next((one.returncode for one in self._them if one.returncode), 0)
                for child in running if self._failed else ():
                    child.terminate()
            if not running:
                return self._failed
            left = until - time.monotonic()
            if len(self._them) == 1:
                return self._them[0].wait(None if left == math.inf else left)
            if left <= 0:
                raise subprocess.TimeoutExpired(self._them[0].args, timeout)
            time.sleep(min(left, _PAUSE))
