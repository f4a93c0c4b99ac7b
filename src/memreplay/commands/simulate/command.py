"""`memreplay simulate`: the same program under other allocator settings, or on another card."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    file_argument,
    force_option,
    format_option,
    reading_options,
    set_option,
    strict_option,
    top_option,
)
from memreplay.commands.shared.output import byte_output, check_output, write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.rendering import rendering
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.analysis.simulating.editing import Change
    from memreplay.commands.simulate.result import SimulateReport
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


class FactorType(click.FloatRange):
    """A range that NaN, which is neither above nor below anything, is not in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error where it is none, or out of range."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


class Asked(Struct, frozen=True):
    """What to simulate, and how to show it."""

    settings: str
    total: int | None
    search: bool
    factor: float | None
    left_out: bool
    twice: bool
    categories: tuple[str, ...]
    saved: str | None
    force: bool
    fmt: str


@click.command(
    "simulate",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay simulate snap.pkl --set expandable_segments:True
  memreplay simulate snap.pkl --set max_split_size_mb:128 --total-memory 40GiB
  memreplay simulate snap.pkl --search
  memreplay simulate snap.pkl --scale 0.5 --category activations --total-memory 24GiB
  memreplay simulate snap.pkl --set expandable_segments:True --save-snapshot new.pkl
  memreplay simulate snap.pkl --search --format json | jq -r '.devices[] | .settings'

{STRICT_EXIT_CODES}""",
)
@file_argument
@set_option
@click.option(
    "--total-memory",
    "total",
    type=SizeType(least=1),
    metavar="SIZE",
    help="The card's memory (40GiB), of which CUDA itself takes some; by default what the program"
    " had in the recording.",
)
@click.option("--search", is_flag=True, help="Try some 30 settings, and show the best.")
@click.option(
    "--scale",
    "factor",
    type=FactorType(min=0, max=1000),
    metavar="FACTOR",
    help="Multiply the sizes of the chosen allocations by this: 0.5 for half the batch.",
)
@click.option("--leave-out", "left_out", is_flag=True, help="Leave the chosen allocations out.")
@click.option(
    "--checkpoint",
    "twice",
    is_flag=True,
    help="Free the chosen allocations at once, and make them again when they are needed.",
)
@click.option(
    "--category",
    "categories",
    multiple=True,
    metavar="NAME",
    help="Choose the allocations of this category (memreplay categories). Repeat for several.",
)
@filter_options
@click.option(
    "--save-snapshot",
    "saved",
    type=click.Path(dir_okay=False, readable=False, path_type=str),
    metavar="OUT",
    help="Write what a recording of the simulation would have been, as a snapshot (compressed if"
    " its name ends in .gz, .zst, .xz or .bz2).",
)
@force_option
@top_option
@config_options
@reading_options
@strict_option
@format_option
@selects_with_rules
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """The same run with other allocator settings, or another card.

    Replays the requests and frees in FILE ('-' for standard input) on a model of PyTorch's caching
    allocator with the settings of --set: what it would reserve, how often it would call the driver,
    and which request would fail first, beside what was recorded. What --set leaves out stays as in
    the recording. Without --set it simulates the recording's own settings, as a check. --scale,
    --leave-out and --checkpoint change the program first: all allocations, or those that --category
    and the filters choose. More: memreplay help simulate.
    """

    if asked.saved == "-":
        raise UsageError("stdout has the report: give --save-snapshot a file's name")
    if asked.saved is not None:
        check_output(asked.saved, force=asked.force, read=[file], binary=True)
    change = change_of(asked, selection)
    saving: list[Iterator[bytes]] = []

    def work() -> SimulateReport:
        from memreplay.commands.simulate.find import report_of, simulations

        with opened(file, reading) as snapshot:
            tried = simulations(
                snapshot,
                selection,
                settings=asked.settings,
                card_bytes=asked.total,
                change=change,
                search=asked.search,
            )
            if asked.saved is not None:
                saving.append(pickled(snapshot, {at: some[0] for at, some in tried.items()}))
            return report_of(
                snapshot,
                tried,
                card_bytes=asked.total,
                search=asked.search,
                strict=selection.strict,
            )

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    for pieces in saving:
        save(asked.saved or "", pieces)
    render = rendering(asked.fmt, "simulate.text:simulate_document", top=selection.top)
    write(render(report))
    return trust_code(report, selection.strict)


def change_of(asked: Asked, selection: Selection) -> Change | None:
    """What to change of the program; None for nothing."""
    chosen = bool(asked.categories) or selection.filters is not None
    if asked.factor is None and not asked.left_out and not asked.twice:
        if chosen:
            raise UsageError(
                "what to do with the chosen allocations? give --scale, --leave-out or --checkpoint"
            )
        return None
    if (asked.factor is not None) + asked.left_out + asked.twice > 1:
        raise UsageError("--scale, --leave-out and --checkpoint exclude each other")
    if not chosen and asked.factor is None:
        raise UsageError("choose allocations, as by --category activations or --include model.py")
    from memreplay.analysis.simulating.editing import Change

    factor = 0.0 if asked.left_out else 1.0 if asked.factor is None else asked.factor
    return Change(
        factor=factor, twice=asked.twice, filters=selection.filters, categories=asked.categories
    )


def pickled(snap: Snapshot, found: Mapping[int, Simulated]) -> Iterator[bytes]:
    """What a recording of these simulations would have been, a device each."""
    from memreplay.export.snapshots.cutting import cut
    from memreplay.snapshot.retold import retold

    return cut(retold(snap, found))[1]


def save(path: str, pieces: Iterator[bytes]) -> None:
    """Write them to a file, which is never left half-written."""
    from memreplay.io.packing import by_name, packed

    named, packing = by_name(path)
    if named == "json":
        from memreplay.snapshot.conversion import as_json

        pieces = as_json(b"".join(pieces))
    with byte_output(path) as out, packed(out, packing) as plain:
        for piece in pieces:
            plain.write(piece)
