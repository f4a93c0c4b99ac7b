"""`memreplay modules`: what each module holds, as the recorder noted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import TELLING_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    at_option,
    file_argument,
    format_option,
    from_zero,
    measure_option,
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
    from memreplay.commands.modules.result import ModulesReport, ModulesSort
    from memreplay.snapshot.model import When

# Spelled out, as `result` is loaded late; a test compares the two.
SORTS = (
    "total",
    "parameters",
    "buffers",
    "gradients",
    "optimizer-state",
    "activations",
    "peak-forward",
    "peak-backward",
    "module",
)


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    at: When | None
    depth: int
    sort: ModulesSort
    fmt: str


@click.command(
    "modules",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay modules snap.pickle
  memreplay modules snap.pickle --depth 3 --top 0
  memreplay modules snap.pickle --at end --sort gradients
  memreplay modules snap.pickle --format json | jq '.devices[0].modules[] | select(.depth == 2)'

{TELLING_EXIT_CODES}""",
)
@file_argument
@at_option
@click.option(
    "--depth",
    type=int,
    callback=from_zero,
    metavar="N",
    default=0,
    show_default=True,
    help="List modules down to this depth, 1 for whole models; 0 for all.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="total",
    show_default=True,
    help="Which modules come first, and are kept by --top: those that hold most in all, of one"
    " column, or at their peak; or the order of the model.",
)
@measure_option
@top_option
@part_options
@filter_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What each module holds.

    Shows of each module in FILE ('-' for standard input), by name, what it held at the peak of a
    device, or at another moment (--at): parameters, gradients, optimizer state, activations; and
    the most that its forward and its backward pass ever held. FILE must be recorded by
    memreplay.record (memreplay help recording), which notes the module of each allocation.
    """

    def work() -> ModulesReport:
        from memreplay.commands.modules.find import PEAK, modules_report

        with opened(file, reading) as snapshot:
            return modules_report(
                snapshot, selection, when=asked.at or PEAK, depth=asked.depth, sort=asked.sort
            )

    return present(
        file, work, rendering(asked.fmt, "modules.text:modules_document"), strict=selection.strict
    )
