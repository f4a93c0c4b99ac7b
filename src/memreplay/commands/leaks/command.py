"""`memreplay leaks`: which code holds more and more from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.errors import attempt, name_of, say
from memreplay.commands.shared.filtering import filter_options_of
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    TELLING_EXIT_CODES,
    all_frames_option,
    by_option_for,
    config_options,
    file_argument,
    format_option,
    measure_option,
    part_options,
    reading_options,
    step_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.leaks.result import LeaksReport

LEAKING = 1
UNTOLD = 5


class Asked(Struct, frozen=True):
    """What a leak is, where steps are, and how to show it."""

    annotation: str | None
    period: int | None
    windows: int | None
    older_than: int
    min_bytes: int
    total_memory: int | None
    fail: bool
    all_frames: bool
    fmt: str


@click.command(
    "leaks",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay leaks snap.pkl
  memreplay leaks snap.pkl --total-memory 80GiB
  memreplay leaks snap.pkl --by module --exclude optimizer
  memreplay leaks snap.pkl --min-bytes 1KiB --fail
  memreplay leaks snap.pkl --format json | jq '.devices[].leaks[] | [.bytes_per_step, .label]'

{TELLING_EXIT_CODES.replace("(--strict)", "(--strict) or leaks (--fail)")}""",
)
@file_argument
@measure_option
@step_options
@click.option(
    "--windows",
    type=click.IntRange(5, 4096),
    metavar="N",
    help="Use N equal parts of the trace instead of steps (20 if a file has no steps).",
)
@click.option(
    "--older-than",
    type=click.IntRange(0),
    metavar="N",
    default=3,
    show_default=True,
    help="Count allocations that outlive N steps as old.",
)
@click.option(
    "--min-bytes",
    type=SizeType(),
    metavar="SIZE",
    default="1B",
    show_default=True,
    help="Do not call it a leak if it grows by less than this a step.",
)
@click.option(
    "--total-memory",
    type=SizeType(least=1),
    metavar="SIZE",
    help="The card's memory (80GiB), of which CUDA itself takes some, to say when it runs out; by"
    " default what the file says.",
)
@click.option(
    "--fail",
    is_flag=True,
    help="Exit with 1 if anything leaks, and with 5 if the file cannot tell.",
)
@by_option_for("allocations")
@top_option
@all_frames_option
@part_options
@filter_options_of("include", "exclude", "only_live_at_end")
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """Which code holds more and more from step to step.

    Adds up what each stack (or group: --by) has live at the end of each step in FILE. Shows those
    that keep growing, with bytes per step; and in a second table what grew once and stopped, such
    as the optimizer's state in the first step. Steps are found as in `memreplay steps`.
    """

    def work() -> LeaksReport:
        from memreplay.commands.leaks.find import leaks_report

        with opened(file, reading) as snapshot:
            return leaks_report(
                snapshot,
                selection,
                annotation=asked.annotation,
                period=asked.period,
                windows=asked.windows,
                older_than=asked.older_than,
                min_bytes=asked.min_bytes,
                total_memory=asked.total_memory,
                all_frames=asked.all_frames,
            )

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    write(rendering(asked.fmt, "leaks.text:leaks_document")(report))
    if asked.fail and report.leaking:
        return LEAKING
    if not report.judged:
        return UNTOLD
    untrusted = trust_code(report, selection.strict)
    if asked.fail and asked.windows is None and (unsure := _unsure(report)):
        say(f"{name_of(file)}: {unsure}")
        return untrusted or UNTOLD
    return untrusted


def _unsure(report: LeaksReport) -> str:
    """Why nobody can say that there is no leak; empty where one can. A device on which nothing
    happened while others worked leaks nothing."""
    for device in report.devices:
        if device.source is not None and device.source.kind == "windows":
            return (
                f"device {device.device}: no steps were found, so the file cannot show that"
                f" nothing leaks; --windows {device.steps} takes equal parts as steps"
            )
        if device.guessed and device.grows:
            return (
                f"device {device.device}: memory grows, and nothing marks steps: a leak, unless"
                " this is a single pass; name the steps with --step-annotation"
            )
        if not device.judged and device.events:
            return f"device {device.device}: {device.not_judged}"
    return ""
