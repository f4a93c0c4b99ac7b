"""`memreplay categories`: what each rule of categories caught, and what none did."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    at_option,
    config_options,
    file_argument,
    measure_option,
    part_options,
    reading_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.output import render_document, terminal_width
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.categories.result import CategoriesReport
    from memreplay.commands.timeline.result import TimelineReport
    from memreplay.snapshot.model import When

POINTS = 1_000


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    at: When | None
    all_frames: bool
    over_time: bool
    fmt: str


@click.command(
    "categories",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay categories snap.pkl
  memreplay categories snap.pkl --config memreplay.toml --top 5
  memreplay categories snap.pkl --measure held --at end
  memreplay categories snap.pkl --over-time
  memreplay categories snap.pkl --over-time --format csv > categories.csv

{STRICT_EXIT_CODES}""",
)
@file_argument
@at_option
@measure_option
@top_option
@all_frames_option
@click.option(
    "--over-time",
    is_flag=True,
    help="Show the bytes of each category over the events, as `memreplay timeline --by category`"
    " does.",
)
@part_options
@filter_options
@config_options
@reading_options
@strict_option
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["text", "csv", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs (memreplay help json); csv with --over-time only.",
)
@selects_with_rules
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What each category rule caught.

    Shows how much each rule caught at the peak of each device in FILE ('-' for standard input), or
    at another moment (--at), and the largest stacks that no rule caught, so that you can write the
    next rule. The rules of the configuration ([[category]], memreplay help categories) come first,
    then the defaults.
    """
    if asked.over_time and asked.at is not None:
        raise UsageError("--over-time shows all moments, --at only one: give one of them")
    if asked.fmt == "csv" and not asked.over_time:
        raise UsageError("--format csv is for --over-time")
    if asked.over_time and selection.measure == "reserved":
        raise UsageError("reserved memory consists of segments, which have no categories")
    width = terminal_width()

    def work() -> CategoriesReport:
        from memreplay.commands.categories.find import PEAK, categories_report

        with opened(file, reading) as snapshot:
            return categories_report(
                snapshot,
                selection,
                fold=asked.fmt == "text" and not asked.all_frames,
                when=asked.at or PEAK,
                all_frames=asked.all_frames,
            )

    def series() -> TimelineReport:
        from memreplay.commands.timeline.find import timeline_report
        from memreplay.commands.timeline.text import text_points

        with opened(file, reading) as snapshot:
            return timeline_report(
                snapshot,
                selection,
                measures=(selection.measure,),
                points=text_points(width) if asked.fmt == "text" else POINTS,
                by="category",
            )

    if asked.over_time:
        return present(
            file, series, partial(_drawn, fmt=asked.fmt, width=width), strict=selection.strict
        )
    else:
        return present(
            file,
            work,
            rendering(asked.fmt, "categories.text:categories_document"),
            strict=selection.strict,
        )


def _drawn(report: TimelineReport, fmt: str, width: int) -> str:
    if fmt == "json":
        from memreplay.render.record_json import render_json

        return render_json(report, indent=None)
    if fmt == "csv":
        from memreplay.commands.timeline.csv import render_timeline_csv

        return render_timeline_csv(report)
    from memreplay.commands.timeline.text import timeline_document

    return render_document(timeline_document(report, width))
