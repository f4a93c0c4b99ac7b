"""`memreplay fits`: which cards a program fits on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    file_argument,
    format_option,
    reading_options,
    set_option,
    strict_option,
    total_memories_option,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fits.result import FitsReport

DOES_NOT_FIT = 1


class Asked(Struct, frozen=True):
    """Which cards and settings, and how to show them."""

    settings: str
    totals: tuple[int, ...]
    fmt: str


@click.command(
    "fits",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay fits snap.pkl
  memreplay fits snap.pkl --total-memory 40GiB,24GiB
  memreplay fits snap.pkl --total-memory 24GiB --set expandable_segments:True
  memreplay fits snap.pkl --format json | jq '.devices[0].need.total_bytes'

{EXIT_CODES.replace("0 fine,", "0 fine, 1 does not fit (or untrusted numbers, with --strict),")}""",
)
@file_argument
@total_memories_option
@set_option
@config_options
@reading_options
@strict_option
@format_option
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """Which cards a program fits on.

    Replays the requests and frees in FILE ('-' for standard input) on a model of PyTorch's caching
    allocator: how much memory the program needs with the settings of its recording (or of --set),
    how much with the best of some 30 others, and for each --total-memory whether it fits, at what
    cost, and which settings would do. What CUDA itself takes of a card is subtracted (an estimate);
    other processes need memory besides.
    More: memreplay help fits.
    """

    def work() -> FitsReport:
        from memreplay.commands.fits.find import fits_report

        with opened(file, reading) as snapshot:
            return fits_report(snapshot, selection, cards=asked.totals, settings=asked.settings)

    found: list[FitsReport] = []

    def remembered() -> FitsReport:
        found.append(work())
        return found[0]

    code = present(
        file, remembered, rendering(asked.fmt, "fits.text:fits_document"), strict=selection.strict
    )
    fits = all(card.fits for one in found for device in one.devices for card in device.cards)
    return code if fits else code or DOES_NOT_FIT
