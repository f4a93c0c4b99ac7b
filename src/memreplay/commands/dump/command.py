"""`memreplay dump`: everything that was read, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import file_argument, output_options, reading_options
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.commands.dump.text import Format
    from memreplay.snapshot.snapshot import Snapshot


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    fmt: Format
    output: str | None
    force: bool


@click.command(
    "dump",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay dump snap.pkl | less
  memreplay dump snap.pkl --from 1200 --to 1210 --force
  memreplay dump snap.pkl --format ndjson -o snap.ndjson
  memreplay dump snap.pkl --format ndjson | jq -c 'select(.action == "oom")'

{EXIT_CODES}""",
)
@file_argument
@reading_options
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["text", "ndjson"]),
    default="text",
    show_default=True,
    help="name=value lines, or one JSON object a line (memreplay help dump).",
)
@output_options
@asks(Asked)
def command(file: str, reading: Reading, asked: Asked) -> int:
    """Everything that was read, event by event.

    Writes every segment, block, event, stack and annotation of FILE ('-' for standard input), one
    per line. For debugging, and for programs that want the whole snapshot without unpickling it.
    """
    check_output(asked.output, force=asked.force, read=[file])

    def work() -> Snapshot:
        with opened(file, reading) as snapshot:
            return snapshot

    snapshot, exit_code = attempt(file, work)
    if snapshot is not None:
        from memreplay.commands.dump.text import render_dump

        with byte_output(asked.output) as out:
            for lines in render_dump(snapshot, asked.fmt):
                out.write(lines)
    return exit_code
