"""`memreplay sql`: SQL over the tables of a snapshot."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from importlib import import_module
from itertools import islice
from threading import Thread
from typing import IO, TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.errors import CUT_OFF, attempt, name_of, say
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import config_options, output_options, reading_options
from memreplay.commands.shared.output import byte_output, check_output, terminal_width, write
from memreplay.commands.shared.progress import several_progress
from memreplay.commands.shared.screen import screened
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.export.tables.joined import Joined
    from memreplay.export.tables.querying import Rows
    from memreplay.snapshot.snapshot import Snapshot

_LINES = 1_000  # that are written at once
FORMATS = ("text", "csv", "json", "ndjson", "parquet")
_ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "text",
}


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    config: ConfigChoice
    is_list: bool
    fmt: str | None
    allow_files: bool
    output: str | None
    force: bool


@click.command(
    "sql",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay sql snap.pkl
  memreplay sql snap.pkl "select file, line, sum(bytes) from flat group by all order by 3 desc"
  memreplay sql snap.pkl "select max(requested_bytes) from usage" --format json
  memreplay sql rank*.pkl "select snapshot, count(*) from events group by all"
  memreplay sql snap.pkl - < query.sql > result.csv --format csv

{EXIT_CODES}""",
)
@click.argument(
    "words",
    metavar="FILE... [QUERY]",
    type=click.Path(
        allow_dash=True, readable=False, path_type=str
    ),  # so that shells complete files
    nargs=-1,
    required=True,
)
@click.option("--list", "is_list", is_flag=True, help="Show the tables and their columns.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice(FORMATS),
    help="How to write the rows (default: by the ending of OUT, else text).",
)
@click.option(
    "--allow-files",
    is_flag=True,
    help="Let the query read and write files and use the network, as DuckDB can (default: off).",
)
@output_options
@config_options
@reading_options
@asks(Asked)
def command(words: tuple[str, ...], reading: Reading, asked: Asked) -> int:
    """SQL over the tables of a snapshot.

    Runs QUERY (- reads it from standard input) in DuckDB, on the tables of export: events,
    allocations, stacks, frames, segments, blocks, annotations, usage; and on flat, the allocations
    with function, file and line. A table is made when the query reads it. With several
    FILEs, each table has the rows of all of them, and a column snapshot. Without a QUERY, the
    tables and their columns are shown.

    The query sees only these tables: no files, no network. Needs DuckDB and pyarrow
    (the extra 'sql').
    """
    from memreplay.export.tables.querying import duckdb

    files, query = _taken_apart(words)
    if asked.is_list and query is not None:
        raise UsageError("--list shows the tables: give no query")
    fmt = asked.fmt or _by_ending(asked.output)
    if query is None and (fmt != "text" or asked.output is not None):
        raise UsageError("without a query there is no result to write: give one after FILE")
    _check_extra()
    duckdb()
    # Rows are for reading on a terminal too.
    on_screen = asked.output in (None, "-") and fmt != "parquet"
    check_output(asked.output, force=asked.force or on_screen, binary=fmt == "parquet", read=files)
    if query == "-":
        query = _query_of_stdin(files)
    rules = asked.config.rules()
    with ExitStack() as until:
        snapshots, exit_code = _read(files, reading, until)
        if exit_code:
            return exit_code
        from memreplay.export.tables.joined import joined_tables

        tables = joined_tables(snapshots, rules)
        if query is None:
            _list(tables)
        else:
            _run(tables, query, fmt, asked.output, allow_files=asked.allow_files)
        for name, snapshot in snapshots.items():
            if snapshot.truncation is not None:
                say(f"{name}: {CUT_OFF}" if len(snapshots) > 1 else CUT_OFF)
    return 0


def _taken_apart(words: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The files, and the query: the last word, if it is `-` behind a file, or empty, or has a space
    in it and is no file. Raises UsageError."""
    last = words[-1]
    spaced = not last or any(map(str.isspace, last))
    is_query = last == "-" or (spaced and not os.path.lexists(last))
    if is_query and len(words) > 1:
        return tuple(dict.fromkeys(words[:-1])), last
    if is_query and last != "-":
        raise UsageError("name a FILE before the query")
    return tuple(dict.fromkeys(words)), None


def _by_ending(output: str | None) -> str:
    if output is None or output == "-":
        return "text"
    ending = os.path.splitext(output)[1].lower()
    if ending and ending not in _ENDINGS:
        raise UsageError(
            f"{output}: no format has this ending; known endings: {', '.join(_ENDINGS)}; or give"
            " --format"
        )
    return _ENDINGS.get(ending, "text")


def _check_extra() -> None:
    """Raises MissingExtraError without pyarrow."""
    from memreplay.errors import MissingExtraError
    from memreplay.export.tables.arrow import arrow

    try:
        arrow()
    except MissingExtraError:
        raise MissingExtraError("sql needs pyarrow", "sql") from None


def _query_of_stdin(files: tuple[str, ...]) -> str:
    if "-" in files:
        raise UsageError("standard input is either the snapshot or the query, not both")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageError("the query on standard input is not text (UTF-8)") from None


def _read(
    files: tuple[str, ...], reading: Reading, until: ExitStack
) -> tuple[dict[str, Snapshot], int]:
    """The snapshots by the names of their files, or the exit code of the one that cannot be read.

    What queries take is imported meanwhile: both take as long.
    """
    loading = Thread(target=_load)
    loading.start()
    found: dict[str, Snapshot] = {}
    exit_code = 0
    with several_progress(len(files)) as showing:
        for file in files:

            def work(file: str = file) -> Snapshot:
                with opened(file, reading, showing) as snapshot:
                    return snapshot

            snapshot, exit_code = attempt(file, work)
            if snapshot is None:
                break
            until.enter_context(snapshot)
            found[name_of(file)] = snapshot
    loading.join()
    return found, exit_code


def _load() -> None:
    # Its own allocators keep what they are given back (see export_writing).
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        for name in ("duckdb", "memreplay.export.tables.joined", "memreplay.export.tables.results"):
            import_module(name)
    except ImportError:
        pass


def _list(tables: dict[str, Joined]) -> None:
    from memreplay.commands.sql.text import tables_text
    from memreplay.export.tables.schema import table_spec

    shown = []
    for name, one in tables.items():
        spec = table_spec(one.table, flat=one.is_flat)
        columns = [f"{c.name} {c.type}{'?' if c.nullable else ''}" for c in spec.columns]
        columns += [f"{label} text" for label in one.schema.names[len(columns) :]]
        shown.append((name, one.rows, columns))
    write(tables_text(shown, terminal_width()))


def _run(
    tables: dict[str, Joined], query: str, fmt: str, output: str | None, *, allow_files: bool
) -> None:
    from memreplay.export.tables.querying import Queries

    queries = Queries(tables, allow_files=allow_files)
    try:
        with queries.result(query) as rows:
            if rows is None:
                raise UsageError("there is nothing to run in the query")
            with byte_output(output) as out:
                _write(rows, fmt, out, whole=output is not None and output != "-")
    finally:
        queries.close()


def _write(rows: Rows, fmt: str, out: IO[bytes], *, whole: bool) -> None:
    from memreplay.export.tables import results

    if fmt != "text":
        if fmt == "csv" and not whole:
            out = screened(out)
        getattr(results, f"write_{fmt}")(rows, out)
        return
    from memreplay.commands.sql.text import table_lines

    seen = bool(os.environ.get("COLUMNS")) or (not whole and sys.stdout.isatty())
    width = terminal_width() if seen and not whole else None
    right = [results.is_number(field.type) for field in rows.schema]
    lines = table_lines(rows.schema.names, right, results.text_columns(rows), width)
    while some := "".join(f"{line}\n" for line in islice(lines, _LINES)):
        out.write(some.encode())
