"""`memreplay summary`: what is in a snapshot, and can its numbers be trusted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    files_argument,
    format_option,
    reading_options,
    strict_option,
)
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.commands.summary.result import SnapshotSummary


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    strict: bool
    fmt: str


@click.command(
    "summary",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay summary snap.pkl
  memreplay summary rank*.pkl
  memreplay summary snap.pkl --strict && echo exact
  memreplay summary rank*.pkl --format json | jq -r '[.file, .devices[0].peak_bytes] | @tsv'

{STRICT_EXIT_CODES} With several files, the highest code counts.""",
)
@files_argument
@reading_options
@strict_option
@format_option
@asks(Asked)
def command(files: tuple[str, ...], reading: Reading, asked: Asked) -> int:
    """What is in a snapshot, and whether it can be trusted.

    Shows the format of each FILE ('-' for standard input), its events, memory and settings, and
    whether a replay of it is exact, or what to record differently. With --format json, one file
    gives one indented object; several files give one object per line.
    """
    indent = None if len(files) > 1 else 2
    render = rendering(asked.fmt, "summary.text:summary_document", indent=indent)
    worst, written = 0, False
    for file in files:
        summary, exit_code = attempt(file, partial(_summarize, file, reading))
        worst = max(worst, exit_code)
        if summary is not None:
            if written and asked.fmt == "text":
                write("")
            write(render(summary))
            written = True
            worst = max(worst, trust_code(summary, asked.strict))
    return worst


def _summarize(file: str, reading: Reading) -> SnapshotSummary:
    from memreplay.commands.summary.find import summarize

    with opened(file, reading) as snapshot:
        return summarize(snapshot)
