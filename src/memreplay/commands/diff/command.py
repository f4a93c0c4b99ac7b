"""`memreplay diff`: what changed between two snapshots, and in which code."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from memreplay.commands.diff.rank import RankType
from memreplay.commands.diff.ranks_command import Asked, are_folders, compare_folders
from memreplay.commands.shared.base import opened_base
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.options import (
    STRICT_EXIT_CODES,
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
from memreplay.commands.shared.output import render_document
from memreplay.commands.shared.present import present
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.comparing.sides import BaselineSide
    from memreplay.commands.diff.result import DiffReport
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.snapshot.model import By, Filters, MeasureName, When
    from memreplay.snapshot.snapshot import Snapshot


@click.command(
    "diff",
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
@click.pass_context
def command(
    ctx: click.Context,
    base: str,
    new: str,
    at: When | None,
    measure: MeasureName,
    by: By | None,
    top: int,
    exact: bool,
    unchanged: bool,
    all_frames: bool,
    rank: int | str | None,
    pool: tuple[int, int] | None,
    stream: int | None,
    filters: Filters | None,
    config: ConfigChoice,
    reading: Reading,
    strict: bool,
    fmt: str,
) -> None:
    """What changed between two snapshots.

    Compares the peak of NEW with that of BASE (or another moment: --at), and shows which code
    changed: what grew, shrank, is new or gone. The changes add up to the whole change. Code that
    only moved (other lines, another folder, a renamed function) is matched; --exact switches that
    off. BASE may be a baseline file (`memreplay baseline`).

    BASE and NEW may also be two folders with one file per rank (rank0.pkl, …). Each rank is then
    compared with the same rank of the other run, and the groups are those of one rank.
    """

    from memreplay.snapshot.model import When

    rules = config.rules_for(by)

    def work(before: Snapshot | BaselineSide, after: Snapshot) -> DiffReport:
        from memreplay.analysis.comparing.sides import BaselineSide
        from memreplay.commands.diff.find import PEAK, diff_report

        of = measure
        if isinstance(before, BaselineSide) and not given(ctx, "measure"):
            of = before.baseline.measure

        return diff_report(
            before,
            after,
            measure=of,
            by=by,
            when=at or PEAK,
            top=top,
            exact=exact,
            unchanged=unchanged,
            all_frames=all_frames,
            pool=pool,
            stream=stream,
            filters=filters,
            rules=rules,
            strict=strict,
        )

    if are_folders(base, new):
        when = at or When("peak", 1)
        asked = Asked(measure, by, when, exact, pool, stream, filters, top, rank, strict)
        compare_folders(ctx, base, new, asked, reading, work, fmt)
    if rank is not None:
        raise click.UsageError("--rank is for two folders of rank files, and these are two files")
    with ExitStack() as open_files:
        # Each by itself: an error should name the file that it is of.
        before, exit_code = attempt(base, partial(opened_base, base, reading, open_files))
        if before is None:
            ctx.exit(exit_code)
        opening = partial(open_files.enter_context, opened(new, reading))
        after, exit_code = attempt(new, opening)
        if after is None:
            ctx.exit(exit_code)
        both = f"{base}, {new}"
        render = partial(_render, fmt=fmt)
        ctx.exit(present(both, partial(work, before, after), render, strict=strict))


def given(ctx: click.Context, name: str) -> bool:
    """Whether an option was named, and is not at its default."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _render(report: DiffReport, fmt: str) -> str:
    if fmt == "json":
        from memreplay.commands.diff.json import render_diff_json

        return render_diff_json(report)
    from memreplay.commands.diff.text import diff_document

    return render_document(diff_document(report))
