"""`memreplay oom`: why a request failed, and what would have helped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    by_option_for,
    config_options,
    file_argument,
    format_option,
    reading_options,
    screen_top_option,
    strict_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.oom.result import OomReport


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    number: int | None
    every: bool
    total: int | None
    all_frames: bool
    fmt: str


@click.command(
    "oom",
    cls=Command,
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
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """Why a request failed, and what would have helped.

    Finds the out-of-memory events in FILE ('-' for standard input), and explains the first one:
    what was asked for and by which code, why the cached memory did not serve, the cause by name,
    what would have helped, and what was live. If the file has none, it shows the state at the end,
    where the program may have failed; the exit code is 0 then, too. More: memreplay help oom.
    """
    if asked.every and asked.number is not None:
        raise UsageError("--all and --oom exclude each other")

    def work() -> OomReport:
        from memreplay.commands.oom.find import oom_report
        from memreplay.commands.oom.text import LISTED

        with opened(file, reading) as snapshot:
            return oom_report(
                snapshot,
                selection,
                number=0 if asked.every else asked.number or 1,
                most=LISTED if asked.fmt == "text" else 0,
                total_bytes=asked.total,
                all_frames=asked.all_frames,
                fold=asked.fmt == "text" and not asked.all_frames,
            )

    return present(
        file, work, rendering(asked.fmt, "oom.text:oom_document"), strict=selection.strict
    )
