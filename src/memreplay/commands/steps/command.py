"""`memreplay steps`: what each step of a program does to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import TELLING_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    file_argument,
    format_option,
    measure_option,
    part_options,
    reading_options,
    step_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.steps.result import StepsReport


class Asked(Struct, frozen=True):
    """How to find steps, and how to show them."""

    annotation: str | None
    period: int | None
    fmt: str


@click.command(
    "steps",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay steps snap.pkl
  memreplay steps snap.pkl --top 0 --measure held
  memreplay steps snap.pkl --step-annotation decode
  memreplay steps snap.pkl --format json | jq '.devices[0].steps[].peak_bytes'

{TELLING_EXIT_CODES}""",
)
@file_argument
@measure_option
@step_options
@top_option
@part_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What each step of a program does to memory.

    Finds the steps of a training or inference loop in FILE. Shows the peak of each step, what is
    live at its end, how much that grew, and what it allocated; and which steps differ from the
    others. Steps are those that annotations mark (ProfilerStep, or Optimizer.step). Without these,
    a step ends where the stacks show the optimizer at work; else steps are what repeats in the
    trace, or all of it.
    """

    def work() -> StepsReport:
        from memreplay.commands.steps.find import steps_report

        with opened(file, reading) as snapshot:
            return steps_report(
                snapshot, selection, annotation=asked.annotation, period=asked.period
            )

    return present(
        file, work, rendering(asked.fmt, "steps.text:steps_document"), strict=selection.strict
    )
