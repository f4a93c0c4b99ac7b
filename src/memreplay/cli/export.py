"""`memreplay export`: a snapshot as tables or traces for other programs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import click

from memreplay.cli.options import (
    EXIT_CODES,
    config_options,
    files_argument,
    reading_options,
)
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.cli.config import ConfigChoice
    from memreplay.cli.source import Reading


class Export(NamedTuple):
    """What was asked for."""

    files: tuple[str, ...]
    fmt: str
    output: str | None
    force: bool
    tables: str | None
    partition: str | None
    reading: Reading
    config: ConfigChoice


# format: (module with `export`, the endings of names that mean it)
FORMATS = {
    "parquet": ("memreplay.cli.export_tables", (".parquet", ".pq")),
    "arrow": ("memreplay.cli.export_tables", (".arrow", ".feather", ".ipc")),
    "csv": ("memreplay.cli.export_tables", (".csv",)),
    "ndjson": ("memreplay.cli.export_tables", (".ndjson", ".jsonl")),
    "json": ("memreplay.cli.export_tables", (".json",)),
}


@click.command(
    "export",
    epilog=f"""\b
Examples:
  memreplay export snap.pkl -o tables/
  memreplay export snap.pkl -o allocations.parquet
  memreplay export snap.pkl -o usage.csv --tables usage
  memreplay export snap.pkl --format ndjson --tables events | head
  memreplay export rank*.pkl -o dataset/ --partition rank

{EXIT_CODES}""",
)
@files_argument
@click.option(
    "--format",
    "fmt",
    type=click.Choice(list(FORMATS)),
    help="What to write (default: by the ending of OUT, else parquet).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(allow_dash=True, path_type=str),
    metavar="OUT",
    help="A file, which is whole or not there; or a folder (OUT/), for one file a table.",
)
@click.option(
    "--tables",
    metavar="NAME[,NAME...]",
    help="Which tables: events, allocations, stacks, frames, segments, blocks, annotations, usage"
    " (default: all into a folder, allocations into a file).",
)
@click.option(
    "--partition",
    type=click.Choice(["rank"]),
    help="Several snapshots into one dataset: OUT/TABLE/rank=N/NAME.parquet, with their file and"
    " host as columns.",
)
@click.option("--force", is_flag=True, help="Write to a terminal, and over what is there.")
@config_options
@reading_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    fmt: str | None,
    output: str | None,
    tables: str | None,
    partition: str | None,
    force: bool,
    config: ConfigChoice,
    reading: Reading,
) -> None:
    """A snapshot as tables or traces for other programs.

    Tables (parquet, arrow, csv, ndjson, json): every event, allocation with its lifetime, stack and
    block, and every measure over time; docs/schema.md has their columns. Needs pyarrow:
    pip install 'memreplay[parquet]'.
    """
    fmt = fmt or _by_name(output)
    export = Export(files, fmt, output, force, tables, partition, reading, config)
    ctx.exit(import_module(FORMATS[fmt][0]).export(export))


def _by_name(output: str | None) -> str:
    """The format that the name of the output means."""
    if output is None or output == "-":
        raise UsageError("say what to write (--format), or where to (-o OUT)")
    for fmt, (_, endings) in FORMATS.items():
        if output.endswith(endings):
            return fmt
    return "parquet"
