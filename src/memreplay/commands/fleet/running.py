"""All ranks of a fleet read on the workers that there are."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.commands.fleet.dataset import missing_of, parts_of, say_dataset
from memreplay.commands.fleet.find import (
    Asked,
    Explained,
    fleet_change,
    fleet_report,
    numbered,
)
from memreplay.commands.fleet.naming import (
    pattern_of,
    ranks_of_fleet,
)
from memreplay.commands.fleet.tasks import PairTask, RankTask, compare, read_rank, unread
from memreplay.commands.shared.errors import say

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.asked import Fleet
    from memreplay.commands.fleet.find import Pair
    from memreplay.commands.fleet.result import FleetRank, FleetReport, RankSource
    from memreplay.commands.shared.source import Reading
    from memreplay.io.listing import Listed
    from memreplay.workers.running import Done, Executor


def run_fleet(
    fleet: Fleet,
    reading: Reading,
    selection: Selection,
    watching: Callable[[Iterator[Done[FleetRank]], int], Iterator[Done[FleetRank]]] | None = None,
) -> FleetReport:
    """What all ranks are together. `watching` passes on what has been read, to show how far it is.

    Raises UsageError where there are no files, and for ranks that are there twice.
    """
    pattern = None if fleet.rank_pattern is None else pattern_of(fleet.rank_pattern)
    files = _listed(fleet.sources)
    base = _listed(fleet.against) if fleet.against else []
    totals = tuple(dict.fromkeys(fleet.totals))
    dataset, parts = parts_of(fleet, files, pattern, (reading, selection, totals))
    # What was before needs no other cards.
    tasks = [
        RankTask(one.path, reading, selection, totals, part)
        for one, part in zip(files, parts, strict=True)
    ]
    tasks += [RankTask(one.path, reading, selection) for one in base]
    rows = [unread(task.file, "unreadable", "was not read") for task in tasks]
    there: dict[int, FleetRank] = {}
    if dataset is not None:
        for at, (file, part) in enumerate(zip(files, parts, strict=True)):
            kept = None if part is None else dataset.kept(part, file)
            if kept is not None:
                there[at] = rows[at] = kept
    left = [at for at in range(len(tasks)) if at not in there]
    with closing(executor_of(fleet, len(left))) as executor:
        done = executor.run(read_rank, [tasks[at] for at in left])
        for one in done if watching is None else watching(done, len(left)):
            rows[left[one.index]] = _row(tasks[left[one.index]].file, one)

        def explain(pairs: Sequence[Pair]) -> list[Explained]:
            # Rows have names without secrets.
            path = {row.file: task.file for row, task in zip(rows, tasks, strict=True)}
            some = [
                PairTask(
                    pair._replace(base=path[pair.base], new=path[pair.new]), reading, selection
                )
                for pair in pairs
            ]
            told = [Explained(error="was not compared")] * len(some)
            for one in executor.run(compare, some):
                told[one.index] = one.result or Explained(error=one.error)
            return told

        after, source = _ranked(files, rows[: len(files)], pattern)
        report = fleet_report(after, Asked(", ".join(fleet.sources), selection, source), explain)
        if fleet.against:
            before, _ = _ranked(base, rows[len(files) :], pattern)
            change = fleet_change(before, after, ", ".join(fleet.against), explain)
            report = replace(report, against=change)
    if dataset is not None:
        whole = dataset.finish(missing_of(after))
        say_dataset(
            fleet.output or "", whole, len(files) - len([at for at in left if at < len(files)])
        )
    return report


def _listed(sources: Sequence[str]) -> list[Listed]:
    from memreplay.io.listing import listed

    return listed(sources)


def _ranked(
    files: Sequence[Listed], rows: Sequence[FleetRank], pattern: re.Pattern[str] | None
) -> tuple[list[FleetRank], RankSource]:
    names = [one.name for one in files]
    ranks, source = ranks_of_fleet(names, [row.noted_rank for row in rows], pattern)
    return numbered(rows, ranks), source


def _row(file: str, done: Done[FleetRank]) -> FleetRank:
    if done.result is not None:
        return done.result
    if done.status in ("memory", "died"):
        return unread(file, done.status, done.error)
    return unread(file, "unreadable", done.error)


def executor_of(fleet: Fleet, files: int) -> Executor:
    """The cluster that was named, or processes of this machine."""
    if fleet.scheduler is not None:
        from memreplay.workers.cluster import DaskCluster

        cluster = DaskCluster(fleet.scheduler)
        if cluster.warning:
            say(cluster.warning)
        if sys.stderr.isatty() and cluster.dashboard_link:
            say(f"dashboard: {cluster.dashboard_link}")
        return cluster
    from memreplay.workers.pool import LocalPool, processors

    workers = fleet.workers or min(processors(), max(files, 1))
    return LocalPool(workers, memory_bytes=fleet.memory_bytes)
