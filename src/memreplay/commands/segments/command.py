"""`memreplay segments`: what was reserved when, and why."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from memreplay.commands.shared.options import (
    STRICT_EXIT_CODES,
    config_options,
    file_argument,
    format_option,
    reading_options,
    strict_option,
    top_option,
)
from memreplay.commands.shared.output import render_document
from memreplay.commands.shared.present import present
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.commands.segments.result import SegmentsReport
    from memreplay.commands.shared.config import ConfigChoice


@click.command(
    "segments",
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
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    top: int,
    listed: bool,
    config: ConfigChoice,
    reading: Reading,
    strict: bool,
    fmt: str,
) -> None:
    """What was reserved when, and why.

    Shows which code made the allocator take memory from the driver (segments, and mapped ranges of
    expandable ones), at the peak and over the recording, and which code made it give memory back.
    --format json also has all changes, as a series.
    """

    del config  # `reading` has what it says of the user's code

    def work() -> SegmentsReport:
        from memreplay.commands.segments.find import segments_report

        with opened(file, reading) as snapshot:
            return segments_report(snapshot, top=top, strict=strict)

    ctx.exit(present(file, work, partial(_render, fmt=fmt, top=top, listed=listed), strict=strict))


def _render(report: SegmentsReport, fmt: str, top: int, listed: bool) -> str:
    if fmt == "json":
        from memreplay.commands.segments.json import render_segments_json

        return render_segments_json(report)
    from memreplay.commands.segments.text import segments_document

    return render_document(segments_document(report, top=top, listed=listed))
