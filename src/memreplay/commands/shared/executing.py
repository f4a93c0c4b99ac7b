"""Options and executors for reading many files: local processes or a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.commands.shared.errors import say
from memreplay.declared import Opt
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.workers.running import Executor

MOST_WORKERS = 1024
LEAST_MEMORY = 1 << 26


def _parse_workers(text: str) -> int | str:
    if text.removeprefix("-").isdecimal():
        return _checked(int(text))
    if ":" not in text and not text.endswith(".json"):
        raise UsageError(
            f"{text!r} is neither a number nor a scheduler's address, such as tcp://head-node:8786"
        )
    return text


def _checked(number: int) -> int:
    if not 1 <= number <= MOST_WORKERS:
        raise UsageError(f"{number} is not between 1 and {MOST_WORKERS:,}")
    return number


def _parse_worker_memory(text: str) -> int:
    size = parse_size(text)
    if size < LEAST_MEMORY:
        raise UsageError(f"{text!r} is too small here")
    return size


class Workers(Struct, frozen=True):
    """Options for the number of local processes and their memory limit, or for the address of a
    cluster's scheduler. Raises UsageError if an address has a limit.
    """

    workers: Annotated[
        int | str | None,
        Opt(
            "Read with N local processes (default: one per processor), or on the Dask cluster with"
            " this scheduler address (such as tcp://head-node:8786). A cluster needs the extra"
            " 'fleet'.",
            "N|ADDRESS",
            parse=_parse_workers,
            rare=True,
            group="Workers",
        ),
    ] = None
    memory_per_worker: Annotated[
        int | None,
        Opt(
            "Limit how much each process's memory may grow beyond its initial use (such as 2GiB). A"
            " file that needs more is skipped and reported.",
            "SIZE",
            parse=_parse_worker_memory,
            rare=True,
            group="Workers",
        ),
    ] = None

    def __post_init__(self) -> None:
        if isinstance(self.workers, int):
            _checked(self.workers)
        if isinstance(self.workers, str) and self.memory_per_worker is not None:
            raise UsageError("a cluster has its own workers; leave out --memory-per-worker")

    @property
    def asked(self) -> bool:
        """Whether any of these options was given."""
        return (self.workers, self.memory_per_worker) != (None, None)


def executor_of(workers: Workers, files: int) -> Executor:
    """Return an executor on the cluster or on local processes, at most one per file.

    On systems that don't support the pool, files are read in this process, which ends if a file
    needs too much memory.
    """
    if isinstance(workers.workers, str):
        from memreplay.workers.cluster import DaskCluster

        cluster = DaskCluster(workers.workers)
        if cluster.warning:
            say(cluster.warning)
        if sys.stderr.isatty() and cluster.dashboard_link:
            say(f"dashboard: {cluster.dashboard_link}")
        return cluster
    from memreplay.workers.pool import LocalPool, is_possible, processors

    if not is_possible():
        from memreplay.workers.serial import Serial

        if workers.workers or workers.memory_per_worker:
            say("this system has no process pools, so files are read one by one")
        return Serial()
    number = workers.workers or min(processors(), max(files, 1))
    return LocalPool(number, memory_bytes=workers.memory_per_worker)
