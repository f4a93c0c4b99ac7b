"""Run SQL over a snapshot's tables, with limits on rows, time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from memreplay.errors import UsageError
from memreplay.mcp.calls import StoppedError
from memreplay.render.compact import CompactLine, compact_table
from memreplay.render.units import count, counted

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.analysis.categories.rules import Rule
    from memreplay.export.tables.joined import Joined
    from memreplay.export.tables.querying import Queries, Rows
    from memreplay.snapshot.snapshot import Snapshot

MOST_ROWS = 1000
MOST_SECONDS = 20.0
# Limit on a batch's bytes. As text, a batch takes more.
MOST_BATCH_BYTES = 32 << 20
_SETTINGS = {"memory_limit": "512MB", "threads": "2"}
_NO_FILES = "a query sees only the tables: no files, network or extensions"
_NULL = "null"


def queried(
    snapshot: Snapshot,
    rules: tuple[Rule, ...],
    query: str,
    given_up: Event,
    *,
    seconds: float = MOST_SECONDS,
) -> list[CompactLine]:
    """Return a query's rows; without a query, the tables and columns.

    Raises UsageError for invalid and slow queries, StoppedError if the caller gave up.
    """
    from memreplay.export.tables.joined import joined_tables
    from memreplay.export.tables.querying import Queries

    tables = joined_tables({snapshot.file: snapshot}, rules)
    queries = Queries(tables, settings=_SETTINGS, denied=_NO_FILES)
    try:
        if not query.strip():
            return _tables(tables)
        if not queries.only_asks(query):
            raise UsageError(
                "SQL: only queries can run here: select, with, describe, summarize, explain"
            )
        with _bounded(queries, given_up, seconds), queries.result(query) as rows:
            if rows is None:
                raise UsageError("the query is empty")
            return _lines(rows)
    finally:
        queries.close()


@contextmanager
def _bounded(queries: Queries, given_up: Event, seconds: float) -> Iterator[None]:
    """Interrupt the query after this time, or when the caller gives up."""
    done, late, left = Event(), Event(), Event()

    def watch() -> None:
        waited = 0.0
        while not done.wait(0.1):
            waited += 0.1
            if waited >= seconds or given_up.is_set():
                (late if waited >= seconds else left).set()
                # Interrupt repeatedly, because a query that hasn't started yet ignores it.
                queries.interrupt()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    except UsageError:
        if left.is_set():
            raise StoppedError from None
        if not late.is_set():
            raise
        raise UsageError(
            f"the query took longer than {seconds:g} s and was stopped; narrow it with"
            " where or limit"
        ) from None
    finally:
        done.set()
        thread.join()


def _lines(rows: Rows) -> list[CompactLine]:
    from memreplay.export.tables.results import text_columns

    found: list[list[str]] = []
    more = False
    for columns in text_columns(_narrow(rows)):
        for row in zip(*columns, strict=True):
            if len(found) == MOST_ROWS:
                more = True
                break
            found.append([_NULL if cell is None else cell for cell in row])
        if more:
            break
    total = f"the first {count(MOST_ROWS)} rows; aggregate, or page with limit and offset"
    lines = [CompactLine(total if more else counted(len(found), "row"))]
    return [*lines, *compact_table(rows.schema.names, found)]


def _narrow(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Yield the batches. Raises UsageError for a batch that is too large."""
    for batch in rows:
        if batch.nbytes > MOST_BATCH_BYTES:
            raise UsageError("the rows are too long; shorten them with substr, or use limit")
        yield batch


def _tables(tables: dict[str, Joined]) -> list[CompactLine]:
    """Return a line per table: its rows, its columns and their types, with ? if nullable."""
    from memreplay.export.tables.schema import table_spec

    lines = []
    for name, one in tables.items():
        spec = table_spec(one.table, flat=one.is_flat)
        columns = (f"{c.name} {c.type}{'?' if c.nullable else ''}" for c in spec.columns)
        lines.append(CompactLine(f"{name} ({counted(one.rows, 'row')}): {', '.join(columns)}"))
    return lines
