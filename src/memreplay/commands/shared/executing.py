"""Who reads many files: processes of this machine, or a cluster; as options, and as an executor."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from memreplay.commands.shared.errors import say
from memreplay.commands.shared.size import SizeType
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.workers.running import Executor

F = TypeVar("F", bound=Callable[..., Any])
MOST_WORKERS = 1024


class Workers(Struct, frozen=True):
    """So many processes of this machine, and the bytes that each may take; or the cluster of a
    scheduler. Raises UsageError for both."""

    number: int | None = None
    memory_bytes: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.scheduler is not None and (self.number, self.memory_bytes) != (None, None):
            raise UsageError(
                "a cluster has its own workers: leave out --workers and --memory-per-worker"
            )

    @property
    def asked(self) -> bool:
        """Whether anything was said of them."""
        return (self.number, self.memory_bytes, self.scheduler) != (None, None, None)


def _number(_ctx: click.Context, _param: click.Parameter, value: int | None) -> int | None:
    # A range of click's own would stand in the help as 1<=x<=1024.
    if value is not None and not 1 <= value <= MOST_WORKERS:
        raise click.BadParameter(f"{value} is not between 1 and {MOST_WORKERS:,}")
    return value


_OPTIONS = (
    click.option(
        "--workers",
        "worker_number",
        type=int,
        callback=_number,
        metavar="N",
        help="Read on so many processes of this machine (default: one for each processor).",
    ),
    click.option(
        "--memory-per-worker",
        "worker_memory",
        type=SizeType(least=1 << 26),
        metavar="SIZE",
        help="What a process may take besides what it begins with (2GiB); a file that takes more is"
        " not read, and named.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Read on the Dask cluster whose scheduler is there (tcp://head-node:8786). Needs pip"
        " install 'memreplay[fleet]'.",
    ),
)


def workers_options(function: F) -> F:
    """--workers, --memory-per-worker and --scheduler, as one argument `workers`."""

    @functools.wraps(function)
    def command(
        *args: Any,
        worker_number: int | None,
        worker_memory: int | None,
        scheduler: str | None,
        **kwargs: Any,
    ) -> Any:
        workers = Workers(worker_number, worker_memory, scheduler)
        return function(*args, workers=workers, **kwargs)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


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

        if workers.number or workers.memory_bytes:
            say("this system has no pool of processes: files are read one after another")
        return Serial()
    number = workers.number or min(processors(), max(files, 1))
    return LocalPool(number, memory_bytes=workers.memory_bytes)
