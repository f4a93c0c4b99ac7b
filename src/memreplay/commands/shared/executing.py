"""Who reads many files: processes of this machine, or a cluster; as options, and as an executor."""

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


def _parse_worker_memory(text: str) -> int:
    size = parse_size(text)
    if size < LEAST_MEMORY:
        raise UsageError(f"{text!r} is too small here")
    return size


class Workers(Struct, frozen=True):
    """So many processes of this machine, and the bytes that each may take; or the cluster of a
    scheduler. Raises UsageError for both."""

    workers: Annotated[
        int | None,
        Opt(
            "Read on so many processes of this machine (default: one for each processor).",
            "N",
            least=1,
            most=MOST_WORKERS,
            rare=True,
            group="Workers",
        ),
    ] = None
    memory_per_worker: Annotated[
        int | None,
        Opt(
            "What a process may take besides what it begins with (2GiB); a file that takes more is"
            " not read, and named.",
            "SIZE",
            parse=_parse_worker_memory,
            rare=True,
            group="Workers",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        Opt(
            "Read on the Dask cluster whose scheduler is there (tcp://head-node:8786). Needs pip"
            " install 'memreplay[fleet]'.",
            "ADDRESS",
            rare=True,
            group="Workers",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.scheduler is not None and (self.workers, self.memory_per_worker) != (None, None):
            raise UsageError(
                "a cluster has its own workers: leave out --workers and --memory-per-worker"
            )

    @property
    def asked(self) -> bool:
        """Whether anything was said of them."""
        return (self.workers, self.memory_per_worker, self.scheduler) != (None, None, None)


def executor_of(workers: Workers, files: int) -> Executor:
    """The cluster that was named, or processes of this machine: no more than there are files.

    Where there is no such pool, this process alone: a file that takes too much takes it along.
    """
    if workers.scheduler is not None:
        from memreplay.workers.cluster import DaskCluster

        cluster = DaskCluster(workers.scheduler)
        if cluster.warning:
            say(cluster.warning)
        if sys.stderr.isatty() and cluster.dashboard_link:
            say(f"dashboard: {cluster.dashboard_link}")
        return cluster
    from memreplay.workers.pool import LocalPool, is_possible, processors

    if not is_possible():
        from memreplay.workers.serial import Serial

        if workers.workers or workers.memory_per_worker:
            say("this system has no pool of processes: files are read one after another")
        return Serial()
    number = workers.workers or min(processors(), max(files, 1))
    return LocalPool(number, memory_bytes=workers.memory_per_worker)
