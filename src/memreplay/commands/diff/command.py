"""`memreplay diff`: what changed between two snapshots, and in which code."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import click
from msgspec.structs import replace

from memreplay.analysis.comparing.sides import BaselineSide
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.diff.find import DiffOptions, diff_report
from memreplay.commands.diff.rank import OfRank
from memreplay.commands.diff.ranks_command import Folders, are_folders, compare_folders
from memreplay.commands.diff.result import DiffReport
from memreplay.commands.diff.text import diff_document
from memreplay.commands.shared.base import opened_base
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.showing import Shown, present
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError
from memreplay.snapshot.snapshot import Snapshot


@as_command(
    "diff",
    examples=(
        "memreplay diff before.pkl after.pkl",
        "memreplay diff before.pkl after.pkl --measure held --by file",
        "memreplay diff base_run/ new_run/ --rank worst",
        "memreplay diff before.pkl after.pkl --at 'ProfilerStep#3:end' --top 0",
        "memreplay diff before.pkl after.pkl --json | jq '.devices[].change_bytes'",
    ),
)
def command(
    base: File,
    new: File,
    options: DiffOptions,
    of_rank: OfRank,
    selection: Selection,
    reading: Reading,
    shown: Shown,
) -> int:
    """Compares the peak of NEW with that of BASE (or another moment: --at), and shows which code
    changed. Code that only moved is matched (--exact: not). BASE may be a baseline (memreplay gate
    --save-base). With two folders of ranks, each is compared with the same one of the other run.
    """

    def work(before: Snapshot | BaselineSide, after: Snapshot) -> DiffReport:
        of = selection
        if isinstance(before, BaselineSide) and not given("measure"):
            of = replace(selection, measure=before.baseline.measure)
        return diff_report(before, after, of, options)

    if are_folders(base, new):
        folders = Folders(base, new, options, of_rank.rank, shown)
        return compare_folders(folders, reading, selection, work)
    if of_rank.rank is not None:
        raise UsageError("--rank is for two folders of rank files, and these are two files")
    with ExitStack() as open_files:
        # Each by itself: an error should name the file that it is of.
        before, exit_code = attempt(base, partial(opened_base, base, reading, open_files))
        if before is None:
            return exit_code
        opening = partial(open_files.enter_context, opened(new, reading))
        after, exit_code = attempt(new, opening)
        if after is None:
            return exit_code
        both = partial(work, before, after)
        return present(f"{base}, {new}", both, shown, diff_document, strict=selection.strict)


def given(name: str) -> bool:
    """Whether an option was named, and is not at its default."""
    ctx = click.get_current_context()
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
