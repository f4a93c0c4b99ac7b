"""`memreplay oom`: why a request failed, and what would have helped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from memreplay.commands.shared.options import (
    STRICT_EXIT_CODES,
    all_frames_option,
    by_option_for,
    config_options,
    file_argument,
    format_option,
    reading_options,
    rows_of,
    screen_top_option,
    strict_option,
)
from memreplay.commands.shared.output import render_document
from memreplay.commands.shared.present import present
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.commands.oom.result import OomReport
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.snapshot.model import By


@click.command(
    "oom",
    epilog=f"""\b
Examples:
  memreplay oom snap.pkl
  memreplay oom snap.pkl --total-memory 80GiB
  memreplay oom snap.pkl --oom 3 --by file
  memreplay oom snap.pkl --format json | jq -e 'all(.devices[]; .ooms == [])'

{STRICT_EXIT_CODES}""",
)
@file_argument
@click.option(
    "--oom",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="Explain the N-th event [1].",
)
@click.option("--all", "every", is_flag=True, help="Explain all of them in detail.")
@click.option(
    "--total-memory",
    "total",
    type=SizeType(least=1),
    metavar="SIZE",
    help="The card's memory (80GiB), to show what else was on it.",
)
@by_option_for("allocations")
@screen_top_option
@all_frames_option
@config_options
@reading_options
@strict_option
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    number: int | None,
    every: bool,
    total: int | None,
    by: By | None,
    top: int | None,
    all_frames: bool,
    config: ConfigChoice,
    reading: Reading,
    strict: bool,
    fmt: str,
) -> None:
    """Why a request failed, and what would have helped.

    Finds the out-of-memory events in FILE ('-' for standard input), and explains the first one:
    what was asked for and by which code, why the cached memory did not serve, the cause by name,
    what would have helped, and what was live. If the file has none, it shows the state at the end,
    where the program may have failed; the exit code is 0 then, too. More: memreplay help oom.
    """
    if every and number is not None:
        raise UsageError("--all and --oom exclude each other")

    rules = config.rules_for(by)

    def work() -> OomReport:
        from memreplay.commands.oom.find import oom_report
        from memreplay.commands.oom.text import LISTED

        with opened(file, reading) as snapshot:
            return oom_report(
                snapshot,
                number=0 if every else number or 1,
                most=LISTED if fmt == "text" else 0,
                total_bytes=total,
                by=by or "stack",
                top=rows_of(top, fmt),
                all_frames=all_frames,
                rules=rules,
                fold=fmt == "text" and not all_frames,
                strict=strict,
            )

    ctx.exit(present(file, work, partial(_render, fmt=fmt), strict=strict))


def _render(report: OomReport, fmt: str) -> str:
    if fmt == "json":
        from memreplay.commands.oom.json import render_oom_json

        return render_oom_json(report)
    from memreplay.commands.oom.text import oom_document

    return render_document(oom_document(report))
