"""`memreplay export`: a snapshot as tables or traces for other programs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from memreplay.commands.export.names import FORMATS, TABLES, VIEWS, format_of
from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    all_frames_option,
    at_option,
    config_options,
    files_argument,
    measures_option,
    part_options,
    points_option,
    reading_options,
)
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.commands.shared.source import Reading
    from memreplay.export.viewers.records import What
    from memreplay.snapshot.model import MeasureName, When


class Export(Struct, frozen=True):
    """What was asked for."""

    files: tuple[str, ...]
    fmt: str
    output: str | None
    force: bool
    tables: str | None
    flat: bool
    partition: str | None
    measures: tuple[MeasureName, ...]
    at: When | None
    what: What | None
    points: int | None
    all_frames: bool
    reading: Reading
    config: ConfigChoice


_TRACES = ("perfetto", "chrome")
_STACKS = ("speedscope", "collapsed", "pprof")
# What the options that do not fit every format are of.
_FITS = {
    "tables": TABLES,
    "partition": TABLES,
    "flat": TABLES,
    "measures": VIEWS,
    "pool": VIEWS,
    "stream": VIEWS,
    "filters": VIEWS,
    "at": ("perfetto", *_STACKS),
    "all_frames": ("perfetto", *_STACKS),
    "what": _STACKS,
    "points": _TRACES,
}
_SPELLED = {
    "measures": "--measure",
    "filters": "a filter (--include, --min-bytes …)",
}


@click.command(
    "export",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay export snap.pkl -o tables/
  memreplay export snap.pkl -o allocations.parquet
  memreplay export snap.pkl -o usage.csv
  memreplay export snap.pkl -o allocations.csv --flat
  memreplay export snap.pkl --format ndjson --tables events | head
  memreplay export rank*.pkl -o dataset/ --partition rank
  memreplay export snap.pkl -o snap.pftrace
  memreplay export snap.pkl -o peak.speedscope.json --at 'ProfilerStep#3:peak'
  memreplay export snap.pkl --format collapsed | flamegraph.pl > peak.svg
  memreplay export snap.pkl -o page.html

{EXIT_CODES}""",
)
@files_argument
@click.option(
    "--format",
    "fmt",
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help=f"What to write: {', '.join(FORMATS)} (default: by the ending of OUT; parquet for a"
    " folder, or without an ending).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(allow_dash=True, readable=False, path_type=str),
    metavar="OUT",
    help="Write to this file, which is never left half-written, or to a folder (OUT/), one file"
    " per table.",
)
@click.option(
    "--tables",
    metavar="NAME[,NAME...]",
    help="Which tables: events, allocations, stacks, frames, segments, blocks, annotations,"
    " usage (default: all of them in a folder; in a file the one in its name, else"
    " allocations).",
)
@click.option(
    "--flat",
    is_flag=True,
    help="Add function, file and line as columns to the allocations, so that you need no join.",
)
@click.option(
    "--partition",
    type=click.Choice(["rank"]),
    help="Write several snapshots as one dataset: OUT/TABLE/rank=N/NAME.parquet, with file and"
    " host as columns.",
)
@click.option("--force", is_flag=True, help="Write to a terminal, and overwrite what is there.")
@measures_option
@at_option
@click.option(
    "--what",
    type=click.Choice(["live", "allocated"]),
    help="For flame graphs: what is live at a moment (default), or everything that was allocated"
    " in the events that are read.",
)
@points_option
@all_frames_option
@part_options
@filter_options
@config_options
@reading_options
@selects
@asks(Export)
def command(selection: Selection, asked: Export) -> int:
    """A snapshot as tables or traces for other programs.

    Traces (perfetto, chrome) show the measures over time, pools and annotations; perfetto also
    shows who held memory at the peak. Flame graphs (speedscope, collapsed, pprof) show who held it
    at the peak, or at another moment, in bytes. memory-timeline writes the files of torch.profiler:
    bytes by category, for one device. html is the page of `memreplay view`. A name that ends in .gz
    is compressed. A line on stderr says what was written.

    Tables (parquet, arrow, csv, ndjson, json) hold every event, every allocation with its lifetime,
    every stack and block, and every measure over time; memreplay help schema lists their columns.
    They need pyarrow (the extra 'parquet').
    """
    fmt = format_of(asked.output, asked.fmt, folder=asked.partition is not None)
    asked = replace(asked, fmt=fmt)
    _check_fit(asked, selection)
    exit_code: int = import_module(FORMATS[fmt][0]).export(asked, selection)
    return exit_code


def _check_fit(asked: Export, selection: Selection) -> None:
    """Raises UsageError for an option that says nothing of the format."""
    for name, formats in _FITS.items():
        value = getattr(asked if hasattr(asked, name) else selection, name)
        if value is not None and value is not False and value != () and asked.fmt not in formats:
            option = _SPELLED.get(name, "--" + name.replace("_", "-"))
            raise UsageError(f"{option} is for {', '.join(formats)}; not for {asked.fmt}")
