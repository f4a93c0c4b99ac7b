"""`memreplay allocations`: what was allocated over the recording, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options_of
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    by_option_for,
    config_options,
    file_argument,
    format_option,
    from_zero,
    part_options,
    reading_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.allocations.result import AllocationsReport
    from memreplay.snapshot.model import AllocationsSort


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    sort: AllocationsSort
    threshold: int
    all_frames: bool
    fmt: str


@click.command(
    "allocations",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay allocations snap.pkl
  memreplay allocations snap.pkl --by category,file --sort count
  memreplay allocations snap.pkl --sort temporary --temporary 1
  memreplay allocations snap.pkl --by size --from 2.5s --to 3s
  memreplay allocations snap.pkl --top 0 --format json > allocations.json

{STRICT_EXIT_CODES}""",
)
@file_argument
@click.option(
    "--measure",
    type=click.Choice(["requested", "held", "active", "allocated"]),
    default="requested",
    show_default=True,
    help="Which bytes, and until when an allocation lives: requested (as asked for, until the free"
    " completes), held (until the free is requested), active and allocated (the same two, in whole"
    " blocks).",
)
@by_option_for("allocations")
@click.option(
    "--sort",
    type=click.Choice(["bytes", "count", "temporary", "mean-lifetime"]),
    default="bytes",
    show_default=True,
    help="Which groups come first: those with the most bytes, allocations or temporary"
    " allocations, or those that live longest.",
)
@click.option(
    "--temporary",
    "threshold",
    type=int,
    callback=from_zero,
    metavar="N",
    default=0,
    show_default=True,
    help="Count an allocation as temporary if at most N others are made before it is freed.",
)
@top_option
@all_frames_option
@part_options
@filter_options_of("include", "exclude", "min_bytes", "only_live_at_end")
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What was allocated over the recording, and for how long.

    Counts every allocation in FILE ('-' for standard input), or in a range of it: how many, how
    large, how long they lived, and how many were temporary. Shows the code that made them, most
    bytes first.
    """

    def work() -> AllocationsReport:
        from memreplay.commands.allocations.find import allocations_report

        with opened(file, reading) as snapshot:
            return allocations_report(
                snapshot,
                selection,
                sort=asked.sort,
                threshold=asked.threshold,
                all_frames=asked.all_frames,
                fold=asked.fmt == "text" and not asked.all_frames,
            )

    return present(
        file,
        work,
        rendering(asked.fmt, "allocations.text:allocations_document"),
        strict=selection.strict,
    )
