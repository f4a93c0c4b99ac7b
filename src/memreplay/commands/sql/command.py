"""`memreplay sql`: query a snapshot's tables with SQL."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing, suppress
from importlib import import_module
from itertools import islice
from threading import Thread
from typing import IO, TYPE_CHECKING, Annotated, Literal

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.ending import undone_by_signals
from memreplay.commands.shared.errors import CUT_OFF, attempt, name_of, say
from memreplay.commands.shared.output import (
    Output,
    byte_output,
    check_output,
    write,
)
from memreplay.commands.shared.progress import several_progress
from memreplay.commands.shared.screen import screened
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.io.parallel import started
from memreplay.width import terminal_width

if TYPE_CHECKING:
    from memreplay.export.tables.joined import Joined
    from memreplay.export.tables.querying import Rows
    from memreplay.snapshot.snapshot import Snapshot
    from memreplay.workers.contained import Bounds

LEAST_MEMORY = 256 << 20
MOST_SECONDS = 10**9
_DUCKDB_PERCENT = 80  # of the memory; functions allocate the rest outside of DuckDB's own limit
_LINES = 1_000  # number of lines to write per call
_ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "text",
}


def _parse_memory(text: str) -> int:
    size = parse_size(text)
    if size < LEAST_MEMORY:
        raise UsageError(f"{text!r} is too small here; give at least 256MiB")
    return size


def machine_memory() -> int:
    """Return the machine's memory in bytes, or that of the container."""
    total: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with (
        suppress(OSError, ValueError),  # no such file, or "max"
        open("/sys/fs/cgroup/memory.max", encoding="ascii") as said,
    ):
        total = min(total, int(said.read()))
    return total


class SqlOptions(Options, frozen=True):
    """Options for what the query may do, and how to write its rows."""

    format: Annotated[
        Literal["text", "csv", "json", "ndjson", "parquet"] | None,
        Opt("How to write the rows (default: from OUT's extension, else text).", group="Output"),
    ] = None
    memory: Annotated[
        int | None,
        Opt(
            "Stop the query when it takes more memory than this, such as 8GiB (default: three"
            " quarters of the machine's).",
            "SIZE",
            parse=_parse_memory,
            brief="Stop the query when it takes more memory.",
            shown=None,
        ),
    ] = None
    timeout: Annotated[
        float,
        Opt(
            "Stop the query after this time.",
            "SECONDS",
            least=0.001,
            most=MOST_SECONDS,
        ),
    ] = 3600.0
    allow_files: Annotated[
        bool,
        Opt(
            "Let the query read and write files and access the network, which DuckDB allows by"
            " default.",
            brief="Let the query use files and the network.",
        ),
    ] = False

    def bounds(self) -> Bounds:
        """Return the limits of the query's process."""
        from memreplay.workers.contained import Bounds
        from memreplay.workers.pool import processors

        return Bounds(
            machine_memory() * 3 // 4 if self.memory is None else self.memory,
            self.timeout,
            processors(),
            may_write=self.allow_files,
            memory_advice="aggregate, or allow more with --memory SIZE",
            time_advice="narrow it with where or limit, or allow more with --timeout SECONDS",
        )


@as_command(
    "sql",
    examples=(
        "memreplay sql snap.pkl",
        'memreplay sql snap.pkl "select file, line, sum(bytes) from flat group by all"',
        'memreplay sql snap.pkl "select max(requested_bytes) from usage" --json',
        'memreplay sql rank*.pkl "select snapshot, count(*) from events group by all"',
        "memreplay sql snap.pkl - < query.sql > result.csv --format csv",
    ),
    words={"as_json": "Short for --format json."},
)
def command(
    # The name FILE makes shells complete file names.
    words: Annotated[tuple[str, ...], Arg("FILE... [QUERY]")],
    options: SqlOptions,
    output: Output,
    reading: Reading,
) -> int:
    """Run QUERY (- reads it from standard input) in DuckDB on the tables that memreplay export
    writes, and on flat: the allocations with function, file and line. Without QUERY, list the
    tables. Several FILEs share the tables; the snapshot column tells their rows apart. The query
    can't use files or the network. Needs the 'sql' extra.
    """
    from memreplay.export.tables.querying import duckdb

    files, query = _taken_apart(words)
    fmt = options.format or _by_ending(output.output)
    if query is None and (fmt != "text" or output.output is not None):
        raise UsageError("without a query there is no result to write; give one after FILE")
    _check_extra()
    duckdb()
    # On a terminal, even raw rows should be readable.
    on_screen = not output.is_file and fmt != "parquet"
    force = output.force or on_screen
    check_output(output.output, force=force, binary=fmt == "parquet", read=files)
    if query == "-":
        query = _query_of_stdin(files)
    rules = reading.config.rules()
    with ExitStack() as until:
        snapshots, exit_code = _read(files, reading, until)
        if exit_code:
            return exit_code
        from memreplay.export.tables.joined import joined_tables

        tables = joined_tables(snapshots, rules)
        if query is None:
            _list(tables)
        else:
            _run(tables, query, fmt, output.output, options)
        for name, snapshot in snapshots.items():
            if snapshot.truncation is not None:
                say(f"{name}: {CUT_OFF}" if len(snapshots) > 1 else CUT_OFF)
    return 0


def _taken_apart(words: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Split the arguments into files and a query. Raises UsageError.

    The last argument is the query if it's `-` and comes after a file, if it's empty, or if it
    contains a space and isn't a file.
    """
    last = words[-1]
    spaced = not last or any(map(str.isspace, last))
    is_query = last == "-" or (spaced and not os.path.lexists(last))
    if is_query and len(words) > 1:
        return tuple(dict.fromkeys(words[:-1])), last
    if is_query and last != "-":
        raise UsageError("give a FILE before the query")
    return tuple(dict.fromkeys(words)), None


def _by_ending(output: str | None) -> str:
    if output is None or output == "-":
        return "text"
    ending = os.path.splitext(output)[1].lower()
    if ending and ending not in _ENDINGS:
        raise UsageError(
            f"{output}: no format has this suffix; known suffixes: {', '.join(_ENDINGS)};"
            " or give --format"
        )
    return _ENDINGS.get(ending, "text")


def _check_extra() -> None:
    """Raise MissingExtraError without pyarrow."""
    from memreplay.errors import MissingExtraError
    from memreplay.snapshot.arrow_columns import arrow

    try:
        arrow()
    except MissingExtraError:
        raise MissingExtraError("sql needs pyarrow", "sql") from None


def _query_of_stdin(files: tuple[str, ...]) -> str:
    if "-" in files:
        raise UsageError("standard input can be the snapshot or the query, not both")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageError("the query on standard input isn't valid UTF-8") from None


def _read(
    files: tuple[str, ...], reading: Reading, until: ExitStack
) -> tuple[dict[str, Snapshot], int]:
    """Return the snapshots by file name, or an unreadable one's exit code.

    The modules that queries need are imported meanwhile, because both take about as long.
    """
    loading = Thread(target=_load)
    is_loading = started(loading)
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
    if is_loading:
        loading.join()
    return found, exit_code


def _load() -> None:
    # Arrow's own allocators keep freed memory (see export/writing.py).
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
    tables: dict[str, Joined], query: str, fmt: str, output: str | None, options: SqlOptions
) -> None:
    """Run a query in its own process, and write its rows."""
    from memreplay.workers.contained import Contained, is_possible

    is_file = output is not None and output != "-"
    # The query's process has no terminal.
    seen = not is_file and (bool(os.environ.get("COLUMNS")) or sys.stdout.isatty())
    width = terminal_width() if seen else None
    bounds = options.bounds()

    def written(out: IO[bytes]) -> IO[bytes]:
        return screened(out) if fmt == "csv" and not is_file else out

    def work(out: IO[bytes]) -> None:
        from memreplay.export.tables.querying import Queries

        duckdb_bytes = bounds.memory_bytes * _DUCKDB_PERCENT // 100
        settings = {"memory_limit": f"{duckdb_bytes >> 10}KiB"}
        queries = Queries(tables, allow_files=options.allow_files, settings=settings)
        with closing(queries):
            rows = queries.result(query)
            if rows is None:
                raise UsageError("the query is empty")
            _write(rows, fmt, out, width)

    if not is_possible():
        with byte_output(output) as out:
            work(written(out))
        return
    with Contained(work, bounds) as running, undone_by_signals(running.kill):
        pieces = iter(running)
        first = next(pieces, b"")  # if the query fails at once, nothing is written
        with byte_output(output) as out:
            shown = written(out)
            shown.write(first)
            for piece in pieces:
                shown.write(piece)


def _write(rows: Rows, fmt: str, out: IO[bytes], width: int | None) -> None:
    from memreplay.export.tables import results

    if fmt != "text":
        getattr(results, f"write_{fmt}")(rows, out)
        return
    from memreplay.commands.sql.text import table_lines

    right = [results.is_number(field.type) for field in rows.schema]
    lines = table_lines(rows.schema.names, right, results.text_columns(rows), width)
    while some := "".join(f"{line}\n" for line in islice(lines, _LINES)):
        out.write(some.encode())
