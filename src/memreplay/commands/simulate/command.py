"""`memreplay simulate`: the same program under other allocator settings, or on another card."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    STRICT_EXIT_CODES,
    config_options,
    file_argument,
    format_option,
    reading_options,
    set_option,
    strict_option,
    top_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.simulate.result import SimulateReport


class Asked(Struct, frozen=True):
    """What to simulate, and how to show it."""

    settings: str
    total: int | None
    search: bool
    fmt: str


@click.command(
    "simulate",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay simulate snap.pkl --set expandable_segments:True
  memreplay simulate snap.pkl --set max_split_size_mb:128 --total-memory 40GiB
  memreplay simulate snap.pkl --search
  memreplay simulate snap.pkl --search --format json | jq -r '.devices[0].settings'

{STRICT_EXIT_CODES}""",
)
@file_argument
@set_option
@click.option(
    "--total-memory",
    "total",
    type=SizeType(least=1),
    metavar="SIZE",
    help="What the driver has for the program (40GiB); by default as much as in the recording.",
)
@click.option("--search", is_flag=True, help="Try some 30 settings, and show the best.")
@top_option
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """The same program under other allocator settings, or on another card.

    Replays the requests and frees in FILE ('-' for standard input) on a model of PyTorch's caching
    allocator with the settings of --set: what it would reserve, how often it would call the driver,
    and which request would fail first, beside what was recorded. What --set leaves out stays as in
    the recording. Without --set it simulates the recording's own settings, as a check. More:
    memreplay help simulate.
    """

    def work() -> SimulateReport:
        from memreplay.commands.simulate.find import simulate_report

        with opened(file, reading) as snapshot:
            return simulate_report(
                snapshot,
                selection,
                settings=asked.settings,
                total_bytes=asked.total,
                searched=asked.search,
            )

    return present(
        file,
        work,
        rendering(asked.fmt, "simulate.text:simulate_document", top=selection.top),
        strict=selection.strict,
    )
