"""Read all ranks of a fleet on the available workers."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.comparing.dumps import EACH
from memreplay.commands.fleet.dataset import missing_of, parts_of, say_dataset
from memreplay.commands.fleet.tasks import PairTask, RankTask, compare, read_rank, unread
from memreplay.commands.shared.errors import name_of
from memreplay.commands.shared.executing import executor_of
from memreplay.errors import UsageError
from memreplay.fleets.find import (
    FleetQuery,
    by_device,
    fleet_change,
    fleet_report,
    numbered,
)
from memreplay.fleets.history import all_histories
from memreplay.fleets.naming import (
    pattern_of,
    ranks_of_fleet,
)
from memreplay.fleets.outliers import Explained
from memreplay.fleets.result import UnlistedFolder
from memreplay.io.urls import is_url

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

    from memreplay.analysis.comparing.dumps import Chosen
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.dataset import Dataset
    from memreplay.commands.fleet.options import Fleet
    from memreplay.commands.shared.source import Reading
    from memreplay.fleets.outliers import Pair
    from memreplay.fleets.result import FleetRank, FleetReport, RankSource
    from memreplay.io.listing import Listed
    from memreplay.io.walking import Unlisted
    from memreplay.workers.running import Done


def run_fleet(
    fleet: Fleet,
    reading: Reading,
    selection: Selection,
    watching: Callable[[Iterator[Done[FleetRank]], int], Iterator[Done[FleetRank]]] | None = None,
) -> FleetReport:
    """Build the report.

    `watching` passes results on while it shows progress. Raises UsageError if there are no files,
    and for duplicate ranks.
    """
    pattern = None if fleet.rank_pattern is None else pattern_of(fleet.rank_pattern)
    unlisted: list[Unlisted] = []
    chosen = _chosen(fleet, _listed(fleet.sources, unlisted), pattern)
    each = fleet.dump == EACH
    if each and fleet.output is not None:
        raise UsageError(
            f"--dump {EACH} reads all dumps, but -o DIR holds one of each rank; name one"
        )
    files, older = chosen.newest, chosen.older
    base = []
    if fleet.base:
        base = _chosen(fleet, _listed(fleet.base, unlisted), pattern, "base: ").newest
    totals = tuple(dict.fromkeys(fleet.total_memory))
    dataset, parts = parts_of(fleet, files, pattern, (reading, selection, totals))
    # There's no need to check the base against the cards.
    tasks = [
        RankTask(_anywhere(one.path), reading, selection, totals, part)
        for one, part in zip(files, parts, strict=True)
    ]
    tasks += [RankTask(_anywhere(one.path), reading, selection) for one in (*older, *base)]
    shown = _shown([one.path for one in (*files, *older, *base)])
    rows = [unread(file, "unreadable", "not read") for file in shown]
    there: dict[int, FleetRank] = {}
    with ExitStack() as ours:
        if dataset is not None:
            wanted = [part for part in parts if part is not None]
            ours.enter_context(dataset.writing([part.rank for part in wanted]))
            for at, (file, part) in enumerate(zip(files, parts, strict=True)):
                kept = None if part is None else dataset.kept(part, file)
                if kept is not None:
                    there[at] = rows[at] = replace(kept, file=shown[at])
            again = [part for at, part in enumerate(parts) if at not in there]
            dataset.begin([part.rank for part in again if part is not None])
        left = [at for at in range(len(tasks)) if at not in there]
        executor = ours.enter_context(closing(executor_of(fleet.readers, len(left))))
        done = executor.run(_work(dataset), [tasks[at] for at in left])
        for one in done if watching is None else watching(done, len(left)):
            at = left[one.index]
            rows[at] = replace(_row(one), file=shown[at])

        def explain(pairs: Sequence[Pair]) -> list[Explained]:
            path = {file: task.file for file, task in zip(shown, tasks, strict=True)}
            some = [
                PairTask(
                    pair._replace(base=path[pair.base], new=path[pair.new]), reading, selection
                )
                for pair in pairs
            ]
            told = [Explained(error="not compared")] * len(some)
            for one in executor.run(compare, some):
                told[one.index] = one.result or Explained(error=one.error)
            return told

        after, source = _ranked(files, rows[: len(files)], pattern)
        asked = FleetQuery(_named(fleet.sources), selection, source, chosen.without)
        report = replace(
            fleet_report(after, asked, explain),
            dumps_choice="" if each else chosen.words("read"),
            different_steps=chosen.different_steps,
        )
        if each:
            of = {one.path: row for one, row in zip((*files, *older), rows, strict=False)}
            report = replace(report, history=all_histories(chosen.histories, of, after, source))
        if fleet.base:
            before, _ = _ranked(base, rows[len(files) + len(older) :], pattern)
            change = fleet_change(before, after, _named(fleet.base), explain)
            report = replace(report, against=change)
        if unlisted:
            folders = tuple(
                UnlistedFolder(folder=one.folder, reason=one.reason)
                for one in dict.fromkeys(unlisted)
            )
            report = replace(report, unlisted_folders=folders, trusted=False)
        if dataset is not None:
            whole = dataset.finish(wanted, missing_of(after))
            unranked = [one.name for one, part in zip(files, parts, strict=True) if part is None]
            say_dataset(fleet.output or "", whole, len(there), unranked)
    return report


def _work(dataset: Dataset | None) -> Callable[[RankTask], FleetRank]:
    if dataset is None:
        return read_rank
    from memreplay.commands.fleet.writing import read_and_write

    return read_and_write


def _named(sources: Sequence[str]) -> str:
    """Return the text that names the sources."""
    return ", ".join(map(name_of, sources))


def _shown(paths: Sequence[str]) -> list[str]:
    """Return the files' names without secrets. Equal names are numbered."""
    names = list(map(name_of, paths))
    first: dict[str, str] = {}
    twice = {
        name
        for name, path in zip(names, paths, strict=True)
        if first.setdefault(name, path) != path
    }
    return [f"{name}#{number}" if name in twice else name for number, name in enumerate(names)]


def _listed(sources: Sequence[str], unlisted: list[Unlisted]) -> list[Listed]:
    from memreplay.io.listing import listed

    return listed(sources, unlisted.append)


def _chosen(
    fleet: Fleet, files: list[Listed], pattern: re.Pattern[str] | None, whose: str = ""
) -> Chosen:
    """Choose one file per rank, or with `--dump each` all files, and print the choice."""
    from memreplay.commands.shared.dumps import chosen_dump
    from memreplay.commands.shared.errors import say
    from memreplay.fleets.naming import numbers_by_pattern

    ranks = None if pattern is None else partial(numbers_by_pattern, pattern=pattern)
    found = chosen_dump(files, fleet.dump, ranks)
    if found.histories and fleet.dump != EACH:
        say(whose + found.words("read"))
    return found


def _ranked(
    files: Sequence[Listed], rows: Sequence[FleetRank], pattern: re.Pattern[str] | None
) -> tuple[list[FleetRank], RankSource]:
    if len(rows) == 1 and len(rows[0].devices) > 1 and pattern is None:
        return by_device(rows[0]), "devices"
    names = [one.name for one in files]
    ranks, source = ranks_of_fleet(names, [row.noted_rank for row in rows], pattern)
    return numbered(rows, ranks), source


def _anywhere(path: str) -> str:
    """Return an absolute path, because workers may run in other folders."""
    return path if is_url(path) else os.path.abspath(path)


def _row(done: Done[FleetRank]) -> FleetRank:
    if done.result is not None:
        return done.result
    return unread(
        "", done.status if done.status in ("memory", "died") else "unreadable", done.error
    )
