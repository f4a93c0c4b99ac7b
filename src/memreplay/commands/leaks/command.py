"""`memreplay leaks`: which code holds more and more from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memreplay.commands.shared.errors import attempt, name_of, say
from memreplay.commands.shared.filtering import filter_options_of
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
from memreplay.commands.shared.output import render_document, write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.commands.leaks.result import LeaksReport
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.snapshot.model import By, Filters, MeasureName

LEAKING = 1
UNTOLD = 5


@click.command(
    "leaks",
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
    help="The device's memory (80GiB), to say when it runs out; by default what an oom event says.",
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
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    measure: MeasureName,
    annotation: str | None,
    period: int | None,
    windows: int | None,
    older_than: int,
    min_bytes: int,
    total_memory: int | None,
    fail: bool,
    by: By | None,
    top: int,
    all_frames: bool,
    pool: tuple[int, int] | None,
    stream: int | None,
    filters: Filters | None,
    config: ConfigChoice,
    reading: Reading,
    strict: bool,
    fmt: str,
) -> None:
    """Which code holds more and more from step to step.

    Adds up what each stack (or group: --by) has live at the end of each step in FILE. Shows those
    that keep growing, with bytes per step; and in a second table what grew once and stopped, such
    as the optimizer's state in the first step. Steps are found as in `memreplay steps`.
    """

    rules = config.rules_for(by)

    def work() -> LeaksReport:
        from memreplay.commands.leaks.find import leaks_report

        with opened(file, reading) as snapshot:
            return leaks_report(
                snapshot,
                measure=measure,
                annotation=annotation,
                period=period,
                windows=windows,
                older_than=older_than,
                min_bytes=min_bytes,
                total_memory=total_memory,
                top=top,
                all_frames=all_frames,
                pool=pool,
                stream=stream,
                by=by or "stack",
                filters=filters,
                rules=rules,
                strict=strict,
            )

    report, exit_code = attempt(file, work)
    if report is not None:
        write(_render(report, fmt))
        exit_code = trust_code(report, strict)
        if fail and report.leaking:
            exit_code = LEAKING
        elif not report.judged:
            exit_code = UNTOLD
        elif fail and windows is None and (unsure := _unsure(report)):
            say(f"{name_of(file)}: {unsure}")
            exit_code = exit_code or UNTOLD
    ctx.exit(exit_code)


def _unsure(report: LeaksReport) -> str:
    """Why nobody can say that there is no leak; empty where one can. A device on which nothing
    happened while others worked leaks nothing."""
    for device in report.devices:
        if device.source is not None and device.source.kind == "windows":
            return (
                f"device {device.device}: no steps were found, so the file cannot show that"
                f" nothing leaks; --windows {device.steps} takes equal parts as steps"
            )
        if not device.judged and device.events:
            return f"device {device.device}: {device.not_judged}"
    return ""


def _render(report: LeaksReport, fmt: str) -> str:
    if fmt == "json":
        from memreplay.render.record_json import render_json

        return render_json(report)
    from memreplay.commands.leaks.text import leaks_document

    return render_document(leaks_document(report))
