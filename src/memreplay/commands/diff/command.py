"""`memreplay diff`: what changed between two snapshots, and in which code."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.diff.rank import RankType
from memreplay.commands.diff.ranks_command import Folders, are_folders, compare_folders
from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.base import opened_base
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    at_option,
    by_option,
    config_options,
    format_option,
    measure_option,
    part_options,
    path_argument,
    reading_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.comparing.sides import BaselineSide
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.diff.result import DiffReport
    from memreplay.snapshot.model import When
    from memreplay.snapshot.snapshot import Snapshot


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    base: str
    new: str
    at: When | None
    exact: bool
    unchanged: bool
    all_frames: bool
    rank: int | str | None
    fmt: str


@click.command(
    "diff",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay diff before.pkl after.pkl
  memreplay diff before.pkl after.pkl --measure held --by file
  memreplay diff before.pkl after.pkl --at 'ProfilerStep#3:end' --top 0
  memreplay diff before.pkl after.pkl --format json | jq '.devices[].change_bytes'
  memreplay diff base_run/ new_run/ --rank worst

{STRICT_EXIT_CODES}""",
)
@path_argument("base")
@path_argument("new")
@at_option
@measure_option
@by_option
@top_option
@click.option("--exact", is_flag=True, help="Match only stacks that are equal, line for line.")
@click.option("--all", "unchanged", is_flag=True, help="Also show what did not change.")
@all_frames_option
@click.option(
    "--rank",
    type=RankType(),
    metavar="N|worst",
    help="With two folders: show the groups of this rank, or of the rank that is highest in NEW"
    " (default: the rank that grew most).",
)
@part_options
@filter_options
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(reading: Reading, selection: Selection, asked: Asked) -> int:
    """What changed between two snapshots.

    Compares the peak of NEW with that of BASE (or another moment: --at), and shows which code
    changed: what grew, shrank, is new or gone. The changes add up to the whole change. Code that
    only moved (other lines, another folder, a renamed function) is matched; --exact switches that
    off. BASE may be a baseline file (`memreplay gate --save-base`).

    BASE and NEW may also be two folders with one file per rank (rank0.pkl, …). Each rank is then
    compared with the same rank of the other run, and the groups are those of one rank.
    """
    from memreplay.snapshot.model import When

    def work(before: Snapshot | BaselineSide, after: Snapshot) -> DiffReport:
        from memreplay.analysis.comparing.sides import BaselineSide
        from memreplay.commands.diff.find import PEAK, diff_report

        of = selection.measure
        if isinstance(before, BaselineSide) and not given("measure"):
            of = before.baseline.measure
        return diff_report(
            before,
            after,
            selection,
            measure=of,
            when=asked.at or PEAK,
            exact=asked.exact,
            unchanged=asked.unchanged,
            all_frames=asked.all_frames,
        )

    base, new = asked.base, asked.new
    if are_folders(base, new):
        when = asked.at or When("peak", 1)
        folders = Folders(base, new, when, asked.exact, asked.rank, asked.fmt)
        return compare_folders(folders, reading, selection, work)
    if asked.rank is not None:
        raise click.UsageError("--rank is for two folders of rank files, and these are two files")
    with ExitStack() as open_files:
        # Each by itself: an error should name the file that it is of.
        before, exit_code = attempt(base, partial(opened_base, base, reading, open_files))
        if before is None:
            return exit_code
        opening = partial(open_files.enter_context, opened(new, reading))
        after, exit_code = attempt(new, opening)
        if after is None:
            return exit_code
        render = rendering(asked.fmt, "diff.text:diff_document")
        work_of_both = partial(work, before, after)
        return present(f"{base}, {new}", work_of_both, render, strict=selection.strict)


def given(name: str) -> bool:
    """Whether an option was named, and is not at its default."""
    ctx = click.get_current_context()
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
