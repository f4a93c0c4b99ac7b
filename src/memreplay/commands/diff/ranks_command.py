"""`memreplay diff` of two folders, rank by rank, with one snapshot in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, structs
from msgspec.structs import replace

from memreplay.analysis.comparing.sides import PEAK
from memreplay.analysis.comparing.spread import run_spread, spread_of
from memreplay.analysis.selecting.choice import fitting_by
from memreplay.commands.diff.find import DiffOptions
from memreplay.commands.diff.ranks_find import chosen_rank, rank_diff, rank_sides
from memreplay.commands.diff.ranks_result import RankDiff, RankSide, RanksReport
from memreplay.commands.diff.ranks_text import ranks_document
from memreplay.commands.shared.base import is_baseline_file
from memreplay.commands.shared.errors import NOT_TRUSTED, attempt
from memreplay.commands.shared.folders import holds_files, rank_files
from memreplay.commands.shared.output import write
from memreplay.commands.shared.progress import Showing, several_progress
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError
from memreplay.render.ranks import rank_list_text

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.diff.result import DiffReport
    from memreplay.snapshot.snapshot import Snapshot

Files = dict[int, str]
T = TypeVar("T")


class Folders(Struct, frozen=True):
    """The two runs, what to compare for every rank, and which rank's groups to show."""

    base: str
    new: str
    options: DiffOptions
    rank: int | str | None
    shown: Shown


def are_folders(base: str, new: str) -> bool:
    """Return whether both inputs are folders. Raises UsageError if only one of them is."""
    ours, theirs = holds_files(base), holds_files(new)
    if ours != theirs:
        folder, other = (base, new) if ours else (new, base)
        words = "isn't one" if os.path.exists(other) else "doesn't exist"
        raise UsageError(f"{folder} is a folder and {other} {words}: give two files or two folders")
    return ours


def compare_folders(
    asked: Folders,
    reading: Reading,
    selection: Selection,
    groups: Callable[[Snapshot, Snapshot], DiffReport],
) -> int:
    """Write what changed on each rank. Return the highest exit code of any file.

    `groups` compares two snapshots in detail, and is only called for one rank, whose files are read
    again.
    """
    fitting_by(selection.measure, selection.by)  # fail before reading anything
    listed = [attempt(folder, partial(_rank_files, folder)) for folder in (asked.base, asked.new)]
    if listed[0][0] is None or listed[1][0] is None:
        return max(code for _, code in listed)
    (ours, alone), (theirs, alone_too) = listed[0][0], listed[1][0]
    both = [rank for rank in ours if rank in theirs]
    _check_ranks(both, ours, theirs, asked.rank)
    run = _Run(asked, reading, selection, groups)
    ranks = run.ranks({rank: (ours[rank], theirs[rank]) for rank in both})
    report = run.report(ranks) if ranks else None
    if report is not None:
        report = structs.replace(
            report,
            only_base=tuple(rank for rank in ours if rank not in theirs),
            only_new=tuple(rank for rank in theirs if rank not in ours),
            not_read=tuple(rank for rank in both if rank not in {one.rank for one in ranks}),
            unranked_files=alone + alone_too,
        )
        write(text_of(report, asked.shown, ranks_document, top=selection.top))
        if selection.strict and not all(one.trusted for one in report.ranks):
            run.worst = max(run.worst, NOT_TRUSTED)
    return run.worst


def _rank_files(folder: str) -> tuple[Files, tuple[str, ...]]:
    """Return the folder's file for each rank, and its files without a rank."""

    def check(files: list[str]) -> None:
        for name in files:
            if ".json" in name.lower() and is_baseline_file(os.path.join(folder, name)):
                raise UsageError(
                    f"{name} in it is a baseline; use memreplay gate RUN/ --base {folder}, or"
                    " memreplay diff with one baseline and a snapshot"
                )

    return rank_files(folder, check)


def _check_ranks(both: list[int], ours: Files, theirs: Files, wanted: int | str | None) -> None:
    """Raise UsageError if no rank is in both folders, or if the wanted rank is missing from one."""
    if not both:
        raise UsageError(
            f"no rank in common: {rank_list_text(ours)} in the base, {rank_list_text(theirs)}"
            " in the new run"
        )
    if isinstance(wanted, int) and wanted not in both:
        raise UsageError(f"no rank {wanted}; both folders have {rank_list_text(both)}")


class _Run:
    """Reads files one by one. `worst` is the highest exit code so far."""

    def __init__(
        self,
        asked: Folders,
        reading: Reading,
        selection: Selection,
        groups: Callable[[Snapshot, Snapshot], DiffReport],
    ) -> None:
        self.asked = asked
        self.reading = reading
        self.selection = selection
        self.groups = groups
        self.worst = 0

    def ranks(self, pairs: dict[int, tuple[str, str]]) -> list[RankDiff]:
        """Return the change on each rank. Ranks with an unreadable file are reported on stderr and
        skipped.
        """
        with several_progress(2 * len(pairs)) as showing:
            sides = {
                rank: [self._sides(file, showing) for file in files]
                for rank, files in pairs.items()
            }
        found = []
        for rank, (base, new) in sides.items():
            if base is not None and new is not None:
                pair = partial(rank_diff, rank, base, new)
                one = self._attempt(", ".join(pairs[rank]), pair)
                found += [] if one is None else [one]
        return found

    def _attempt(self, file: str, work: Callable[[], T]) -> T | None:
        found, exit_code = attempt(file, work)
        self.worst = max(self.worst, exit_code)
        return found

    def _sides(self, file: str, showing: Showing) -> dict[int, RankSide] | None:
        def work() -> dict[int, RankSide]:
            with opened(file, self.reading, showing) as snapshot:
                return rank_sides(snapshot, self.selection, when=self.asked.options.at or PEAK)

        return self._attempt(file, work)

    def report(self, ranks: list[RankDiff]) -> RanksReport:
        """Build the report, including one rank's groups."""
        asked, selection = self.asked, self.selection
        numbers = [one.rank for one in ranks]
        chosen = chosen_rank(ranks, asked.rank)
        detail = None if chosen is None else self._detail(chosen)
        return RanksReport(
            base_folder=asked.base,
            new_folder=asked.new,
            measure=selection.measure,
            by=fitting_by(selection.measure, selection.by),
            moment=asked.options.at or PEAK,
            exact=asked.options.exact,
            filters=selection.filters or None,
            base=run_spread(numbers, [one.base_bytes for one in ranks]),
            new=run_spread(numbers, [one.new_bytes for one in ranks]),
            change=spread_of(numbers, [one.change_bytes for one in ranks]),
            ranks=tuple(ranks),
            detail_rank=None if chosen is None or detail is None else chosen.rank,
            detail=detail,
        )

    def _detail(self, chosen: RankDiff) -> DiffReport | None:
        """Return one rank's groups on the compared device."""
        with several_progress(2) as showing, ExitStack() as open_files:
            both = []
            for side in (chosen.base, chosen.new):
                file = opened(side.file, replace(self.reading, device=side.device), showing)
                snapshot = self._attempt(side.file, partial(open_files.enter_context, file))
                if snapshot is None:
                    return None
                both.append(snapshot)
            files = f"{chosen.base.file}, {chosen.new.file}"
            return self._attempt(files, partial(self.groups, *both))
