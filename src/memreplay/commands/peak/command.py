"""`memreplay peak`: how high, when, and who held the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    by_option,
    config_options,
    file_argument,
    format_option,
    measure_option,
    part_options,
    peaks_option,
    reading_options,
    screen_top_option,
    strict_option,
    tree_options,
    tree_shape,
)
from memreplay.commands.shared.present import present
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.peak.result import PeakReport


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    all_frames: bool
    peaks: int
    tree: tuple[int, float, bool] | None
    fmt: str


@click.command(
    "peak",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay peak snap.pkl
  memreplay peak snap.pkl.gz --by file --top 10
  memreplay peak snap.pkl --device 0 --all-frames | less
  memreplay peak snap.pkl --from 2.5s --to 3s
  memreplay peak snap.pkl --measure reserved --by pool
  memreplay peak snap.pkl --measure held --peaks 5 --strict
  memreplay peak snap.pkl --top 0 --format json > peak.json

{STRICT_EXIT_CODES}""",
)
@file_argument
@measure_option
@by_option
@screen_top_option
@all_frames_option
@tree_options
@peaks_option
@part_options
@filter_options
@config_options
@reading_options
@strict_option
@format_option
@selects_with_rules
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """How high memory went, when, and who held it.

    Replays the allocations of each device in FILE ('-' for standard input). Shows the moment when
    most memory was requested (or held, active, allocated, reserved: --measure), and the code that
    held it, largest first.
    """

    def work() -> PeakReport:
        from memreplay.commands.peak.find import peak_report

        with opened(file, reading) as snapshot:
            return peak_report(
                snapshot,
                selection,
                peaks=asked.peaks,
                all_frames=asked.all_frames,
                fold=asked.fmt == "text" and not asked.all_frames and asked.tree is None,
                tree=tree_shape(asked.tree, whole=asked.all_frames),
            )

    return present(
        file,
        work,
        rendering(asked.fmt, "peak.text:peak_document", last="peak.text:headlines"),
        strict=selection.strict,
    )
