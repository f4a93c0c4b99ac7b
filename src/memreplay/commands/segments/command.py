"""`memreplay segments`: what was reserved when, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    file_argument,
    format_option,
    reading_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.segments.result import SegmentsReport


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    listed: bool
    fmt: str


@click.command(
    "segments",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay segments snap.pkl
  memreplay segments snap.pkl --top 0 --device 0
  memreplay segments snap.pkl --list --top 50
  memreplay segments snap.pkl --format json | jq '.devices[0].changes.reserved_bytes | max'

{STRICT_EXIT_CODES}""",
)
@file_argument
@top_option
@click.option("--list", "listed", is_flag=True, help="List the --top largest changes one by one.")
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """What was reserved when, and why.

    Shows which code made the allocator take memory from the driver (segments, and mapped ranges of
    expandable ones), at the peak and over the recording, and which code made it give memory back.
    --format json also has all changes, as a series.
    """

    def work() -> SegmentsReport:
        from memreplay.commands.segments.find import segments_report

        with opened(file, reading) as snapshot:
            return segments_report(snapshot, top=selection.top, strict=selection.strict)

    return present(
        file,
        work,
        rendering(
            asked.fmt,
            "segments.text:segments_document",
            indent=None,
            top=selection.top,
            listed=asked.listed,
        ),
        strict=selection.strict,
    )
