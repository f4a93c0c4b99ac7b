"""`memreplay fleet`: all ranks of a run, each by itself and beside the others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, Struct

from memreplay.commands.fleet.asked import Fleet
from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.dumps import dump_option
from memreplay.commands.shared.errors import NOT_READABLE, NOT_TRUSTED, attempt
from memreplay.commands.shared.executing import Workers, workers_options
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    measure_option,
    page_format_option,
    reading_options,
    strict_option,
    top_option,
    total_memories_option,
)
from memreplay.commands.shared.output import check_output, write
from memreplay.commands.shared.progress import counted
from memreplay.commands.shared.rendering import rendering
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.result import FleetReport
    from memreplay.commands.shared.source import Reading


class Asked(Struct, frozen=True):
    """Which files, who reads them, and how to show what is found."""

    sources: tuple[str, ...]
    rank_pattern: str | None
    workers: Workers
    totals: tuple[int, ...]
    against: tuple[str, ...]
    output: str | None
    tables: str | None
    page: str | None
    force: bool
    dump: str | None
    fmt: str


@click.command(
    "fleet",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay fleet run/
  memreplay fleet 's3://bucket/run/**/*.pickle'
  memreplay fleet run/ --workers 8 --memory-per-worker 2GiB
  memreplay fleet run/ --total-memory 40GiB,24GiB
  memreplay fleet new/ --against base/
  memreplay fleet run/ --dump iteration_10
  memreplay fleet run/ --dump each
  memreplay fleet run/ --page run.html
  memreplay fleet run/ -o dataset/ --tables allocations,usage
  memreplay fleet run/ --scheduler tcp://head-node:8786
  memreplay fleet dumps/*.pkl --rank-pattern 'gpu([0-9]+)'
  memreplay fleet run/ --format markdown | gh issue comment 7 --body-file -
  memreplay fleet run/ --format json | jq '.outliers[].rank'

{STRICT_EXIT_CODES}""",
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@workers_options
@click.option(
    "--against",
    multiple=True,
    metavar="SOURCE",
    help="Compare each rank with the same one of this other fleet, as a base. Repeat for several"
    " sources.",
)
@total_memories_option
@click.option(
    "--rank-pattern",
    metavar="REGEX",
    help="Find each file's rank in its name by this expression: its one group is the number.",
)
@dump_option("also shows how each rank grew from dump to dump")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, readable=False, path_type=str),
    metavar="FILE",
    help="Write an interactive page, too, that any browser opens: ranks by time as a heat map.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, readable=False, path_type=str),
    metavar="DIR",
    help="Write the tables of all ranks as one Parquet dataset, too: DIR/TABLE/rank=N/NAME.parquet."
    " Run again it reads only what is new. Needs pyarrow (the extra 'parquet').",
)
@click.option("--tables", metavar="NAME[,NAME...]", help="Which tables (default: all of them).")
@click.option(
    "--force", is_flag=True, help="Replace the page; take ranks of another fleet in DIR away."
)
@measure_option
@top_option
@config_options
@reading_options
@strict_option
@page_format_option
@selects_with_rules
@asks(Asked)
def command(reading: Reading, selection: Selection, asked: Asked) -> int:
    """All ranks of a run: which is worst, which is odd, and why.

    Reads one snapshot a rank, from folders, patterns (also of object stores, by fsspec) or files,
    on all processors or on a Dask cluster. Shows each rank's peak, reserved memory and headroom,
    how they lie, how even the ranks are from step to step, and groups of ranks that hold the same;
    of a rank that is like no other, the code that makes the difference. A file that cannot be read
    is named, and the others are not lost.
    """
    if asked.output is None and asked.tables is not None:
        raise UsageError("--tables is for a dataset: give -o DIR")
    if asked.force and asked.output is None and asked.page is None:
        raise UsageError("--force is for a dataset or a page: give -o DIR or --page FILE")
    if asked.page is not None:
        check_output(asked.page, force=asked.force, binary=True, read=asked.sources)
    fleet = Fleet(
        asked.sources,
        asked.rank_pattern,
        asked.workers,
        asked.totals,
        asked.against,
        asked.output,
        asked.tables,
        asked.force,
        asked.dump,
    )

    def work() -> FleetReport:
        from memreplay.commands.fleet.running import run_fleet

        return run_fleet(fleet, reading, selection, partial(counted, what="ranks"))

    report, code = attempt("", work)
    if report is None:
        return code
    if asked.page is not None:
        from memreplay.commands.fleet.page import write_fleet_page

        write_fleet_page(report, asked.page)
    write(rendering(asked.fmt, "fleet.text:fleet_document")(report))
    older = () if report.history is UNSET else report.history
    told = [one.status for one in report.ranks]
    told += [dump.status for one in older for dump in one.dumps]
    if report.unlisted_folders or any(status not in ("ok", "empty") for status in told):
        return NOT_READABLE
    return NOT_TRUSTED if selection.strict and not report.trusted else 0
