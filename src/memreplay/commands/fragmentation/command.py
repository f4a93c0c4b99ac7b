"""`memreplay fragmentation`: what is reserved and not in use, and what blocks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    at_option,
    by_option_for,
    config_options,
    file_argument,
    output_options,
    reading_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.output import (
    byte_output,
    check_output,
    terminal_width,
)
from memreplay.commands.shared.present import present, trust_code
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fragmentation.result import FragmentationReport
    from memreplay.snapshot.model import When

PICTURES = ("png", "svg")
# The columns of the map beside the bar, and how wide a bar is worth looking at.
_BESIDE, _NARROWEST, _WIDEST = 52, 24, 100


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    at: When | None
    all_frames: bool
    mapped: bool
    fmt: str
    output: str | None
    force: bool


@click.command(
    "fragmentation",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay fragmentation snap.pkl
  memreplay fragmentation snap.pkl --at peak --map
  memreplay fragmentation snap.pkl --at end --by file --top 5
  memreplay fragmentation snap.pkl --format png -o map.png
  memreplay fragmentation snap.pkl --format json | jq '.devices[].pinned_bytes'

{STRICT_EXIT_CODES}""",
)
@file_argument
@at_option
@by_option_for("the blocks that keep free memory reserved")
@top_option
@all_frames_option
@click.option("--map", "mapped", is_flag=True, help="Show the segments, the most free first.")
@config_options
@reading_options
@strict_option
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["text", "json", *PICTURES]),
    default="text",
    show_default=True,
    help="For people, for programs (memreplay help json), or a picture of the segments (needs"
    " memreplay[plot]).",
)
@output_options
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What is reserved and not in use, and what blocks it.

    Shows how much reserved memory each device in FILE ('-' for standard input) did not use over the
    recording. For one moment, it also shows where the free memory lies, what empty_cache() would
    give back, and which live blocks keep the rest reserved. --at names the moment; by default it is
    where a request failed, else where most was reserved or active.
    """
    picture = asked.fmt in PICTURES
    if picture:
        check_output(asked.output, force=asked.force, picture=True, read=[file])
    elif asked.output is not None:
        raise UsageError("-o is for pictures: give --format png or svg, or use > FILE")

    def work() -> FragmentationReport:
        from memreplay.commands.fragmentation.find import fragmentation_report

        with opened(file, reading) as snapshot:
            return fragmentation_report(
                snapshot,
                selection,
                at=asked.at,
                bars=_cells() if asked.mapped and asked.fmt == "text" else 0,
                blocks=picture or (asked.mapped and asked.fmt == "json"),
                all_frames=asked.all_frames,
                fold=asked.fmt == "text" and not asked.all_frames,
            )

    if not picture:
        return present(
            file,
            work,
            rendering(
                asked.fmt,
                "fragmentation.text:fragmentation_document",
                # One with a map has many blocks, which would take many lines each.
                indent=None if asked.mapped else 2,
            ),
            strict=selection.strict,
        )
    from memreplay.commands.fragmentation.plot import render_fragmentation_plot
    from memreplay.render.plot import check_plot

    check_plot()
    report, exit_code = attempt(file, work)
    if report is not None:
        drawn = render_fragmentation_plot(report, asked.fmt)
        with byte_output(asked.output) as out:
            out.write(drawn)
        exit_code = trust_code(report, selection.strict)
    return exit_code


def _cells() -> int:
    return max(_NARROWEST, min(_WIDEST, terminal_width() - _BESIDE))
