"""`memreplay at`: what was held at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.address import AddressType
from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.moment import MomentType
from memreplay.commands.shared.options import (
    all_frames_option,
    by_option,
    config_options,
    file_argument,
    format_option,
    measure_option,
    part_options,
    reading_options,
    screen_top_option,
    strict_option,
    tree_options,
    tree_shape,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.shared.when import WhenType

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.at.result import AtReport
    from memreplay.snapshot.model import Edge, Moment, When


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    events: tuple[int, ...]
    times: tuple[Moment, ...]
    annotations: tuple[str, ...]
    edge: Edge | None
    peaks: tuple[int, ...]
    addresses: tuple[When, ...]
    at_start: bool
    at_end: bool
    ats: tuple[When, ...]
    stages: bool
    listed: bool
    all_frames: bool
    tree: tuple[int, float, bool] | None
    fmt: str


@click.command(
    "at",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay at snap.pkl --event 12000
  memreplay at snap.pkl --time 1.5s --by file
  memreplay at snap.pkl --annotation 'ProfilerStep#3' --edge end
  memreplay at snap.pkl --annotations
  memreplay at snap.pkl --address 0x7f12a0000000
  memreplay at snap.pkl --peak 2 --list --top 50
  memreplay at snap.pkl --start --end --measure held
  memreplay at snap.pkl --end --list --top 0 --format json > live.json

{STRICT_EXIT_CODES}""",
)
@file_argument
@click.option(
    "--event", "events", type=int, multiple=True, metavar="I", help="After event I; -1: the start."
)
@click.option(
    "--time",
    "times",
    type=MomentType(),
    multiple=True,
    metavar="T",
    help="After the events up to a time since the start (1.5s, 300ms), a UTC time"
    " (2026-01-21T10:15:00) or @SECONDS since the epoch.",
)
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="NAME[#K]",
    help="At an annotation, the K-th of that name (-1: the last).",
)
@click.option(
    "--edge",
    type=click.Choice(["start", "end", "peak"]),
    help="Where in the annotation: before its first event (start, the default), after its last"
    " (end), or at the highest moment in between (peak).",
)
@click.option(
    "--peak", "peaks", type=int, multiple=True, metavar="N", help="At the N-th highest peak."
)
@click.option(
    "--address",
    "addresses",
    type=AddressType(),
    multiple=True,
    metavar="ADDR[#K]",
    help="When an address was allocated (0x7f12a0000000), the K-th time (-1: the last), or a block"
    " as PyTorch's viewer shows it (b7f12a0000000_2), and how"
    " long it lived.",
)
@click.option("--start", "at_start", is_flag=True, help="Before the first event.")
@click.option("--end", "at_end", is_flag=True, help="After the last event.")
@click.option(
    "--at",
    "ats",
    type=WhenType(),
    multiple=True,
    metavar="WHEN",
    help="Any of these in one option: peak:2, end, 1.5s, NAME#2:end.",
)
@click.option(
    "--list", "listed", is_flag=True, help="Also list single allocations, as many as --top says."
)
@click.option(
    "--annotations",
    "stages",
    is_flag=True,
    help="Show all annotations in a table: usage at the start and the end, and the peak within.",
)
@measure_option
@by_option
@screen_top_option
@all_frames_option
@tree_options
@part_options
@filter_options
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What was held at a moment.

    Shows the allocations that are live in FILE ('-' for standard input) after an event, at a time,
    at an annotation, at a peak, at the start or the end, or when an address was allocated. They are
    grouped as in `memreplay peak`; --list also shows them one by one. You can give several moments.
    """
    moments = _moments(asked)
    if not moments and not asked.stages:
        raise click.UsageError(
            "which moment? Give --event I, --time T, --annotation NAME, --peak N, --address A,"
            " --start, --end or --annotations"
        )

    def work() -> AtReport:
        from memreplay.commands.at.find import at_report

        with opened(file, reading) as snapshot:
            return at_report(
                snapshot,
                moments,
                selection,
                listed=asked.listed,
                all_frames=asked.all_frames,
                fold=asked.fmt == "text" and not asked.all_frames and asked.tree is None,
                tree=tree_shape(asked.tree, whole=asked.all_frames),
                stages=asked.stages,
            )

    return present(
        file,
        work,
        rendering(asked.fmt, "at.text:at_document", last="at.text:headlines"),
        strict=selection.strict,
    )


def _moments(asked: Asked) -> list[When]:
    """What was asked for, in the order of the options above."""
    from memreplay.snapshot.model import When

    if asked.edge is not None and not asked.annotations:
        raise click.UsageError("--edge says where in an --annotation: give one")
    moments = [When("event", event) for event in asked.events]
    for time in asked.times:
        if time.kind == "event":
            raise click.BadParameter(
                f"{time.value} has no unit: 1.5s, 300ms; or an --event?", param_hint="'--time'"
            )
        moments.append(When(time.kind, time.value))
    moments += [
        When("annotation", name=name, edge=asked.edge or "start") for name in asked.annotations
    ]
    moments += [When("peak", peak) for peak in asked.peaks]
    moments += [When("start")] * asked.at_start + [When("end")] * asked.at_end
    moments += [*asked.ats, *asked.addresses]
    return moments
