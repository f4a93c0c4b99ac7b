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


class ShownDiff(Shown, frozen=True):
    """Output options: text or JSON, and for two folders, which rank's groups to show."""

    of: OfRank = OfRank()


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
    selection: Selection,
    reading: Reading,
    shown: ShownDiff,
) -> int:
    """Compare the peak of NEW with the peak of BASE (or another moment: --at), and show which code
    changed. Code that only moved is matched, unless you give --exact. BASE may be a base file
    (memreplay gate --save-base). Two folders with one file per rank are compared rank by rank.
    """

    def work(before: Snapshot | BaselineSide, after: Snapshot) -> DiffReport:
        of = selection
        if isinstance(before, BaselineSide) and not given("measure"):
            of = replace(selection, measure=before.baseline.measure)
        return diff_report(before, after, of, options)

    if are_folders(base, new):
        folders = Folders(base, new, options, shown.of.rank, shown)
        return compare_folders(folders, reading, selection, work)
    if shown.of.rank is not None:
        raise UsageError("--rank needs two folders of rank files, not two files")
    with ExitStack() as open_files:
        # Parsed separately so that an error names the right file.
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
    """Return whether an option was given explicitly."""
    ctx = click.get_current_context()
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
