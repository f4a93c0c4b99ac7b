"""Run SQL with DuckDB on tables that are built when a query reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memreplay.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.export.tables.joined import Joined

NEEDS_DUCKDB = "sql needs DuckDB 1.5 or later"
OLDEST = (1, 5)  # earlier versions can only scan a registered stream once
ROWS = 1 << 14  # rows per result batch

# Queries can only use these tables: no files, network, program variables, extension downloads or
# temporary folders. They can't change these settings.
_SAFE = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "temp_directory": "",
}
ALLOW_FILES = "--allow-files lets a query do this"
# The prefix of DuckDB's messages.
_KIND = re.compile(r"\A(?:[A-Z][A-Za-z]* )+Error: ")
_NO_MEMORY = re.compile(r"\AOut of Memory Error: |std::bad_alloc")
_COLUMN = re.compile(r'column "?(\w+)"? not found|does not have a column named "?(\w+)"?')
_PLACE = re.compile(r"\n\s*LINE \d+:.*\Z", re.DOTALL)


def duckdb() -> Any:
    """Import DuckDB. Raises MissingExtraError with the extra's name."""
    try:
        import duckdb as module
    except ImportError:
        raise MissingExtraError(NEEDS_DUCKDB, "sql") from None
    found = re.match(r"(\d+)\.(\d+)", module.__version__)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise MissingExtraError(f"{NEEDS_DUCKDB}, and this is {module.__version__}", "sql")
    return module


class Rows:
    """A query's result: its schema, and its batches, readable once."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches


class Queries:
    """An in-memory database with these tables, until `close`."""

    def __init__(
        self,
        tables: Mapping[str, Joined],
        *,
        allow_files: bool = False,
        settings: Mapping[str, str] | None = None,
        denied: str = ALLOW_FILES,
    ) -> None:
        """`settings`: DuckDB settings in addition to those that deny access to files. `denied`: the
        advice to give if a query tries to read files.
        """
        self._duckdb = duckdb()
        self._denied = denied
        self._allow_files = allow_files
        self._columns = {name: table.schema.names for name, table in tables.items()}
        config = {**({} if allow_files else _SAFE), **(settings or {})}
        try:
            self._connection = self._duckdb.connect(":memory:", config=config)
        except self._duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from None
        for name, table in tables.items():
            self._connection.register(name, table)
        if not allow_files:
            self._connection.execute("set lock_configuration = true")

    def close(self) -> None:
        """Release the tables."""
        self._connection.close()

    def only_asks(self, query: str) -> bool:
        """Return whether every statement only reads. Raises UsageError for invalid SQL."""
        kinds = self._duckdb.StatementType
        try:
            statements = self._connection.extract_statements(query)
        except self._duckdb.Error as error:
            raise UsageError(_words(str(error))) from None
        return all(one.type in (kinds.SELECT, kinds.EXPLAIN) for one in statements)

    def result(self, query: str) -> Rows | None:
        """Run a query, and return its rows, which are computed as they are read.

        If there are several statements, the rows are the last one's. Returns None if there is
        nothing to run. Raises UsageError for errors in the query, even while rows are read, and
        MemoryError if memory doesn't suffice.
        """
        with self._clear_errors():
            rows = self._connection.sql(query)
            if rows is None:
                return None
            reader = (getattr(rows, "to_arrow_reader", None) or rows.fetch_record_batch)(ROWS)
            return Rows(reader.schema, self._batches(reader))

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._clear_errors():
            yield from reader

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn DuckDB's errors into one line. While rows are read, Arrow raises them as OSError and
        ValueError.
        """
        try:
            yield
        except (self._duckdb.Error, OSError, ValueError) as error:
            # If a table raises an exception inside DuckDB, it arrives as text with its traceback.
            kind, _, words = str(error).rstrip().rpartition("\n")[2].partition(": ")
            if kind == "MemoryError":
                raise MemoryError(words) from None
            if _NO_MEMORY.search(str(error)):
                raise MemoryError(str(error)) from None
            denied = isinstance(error, self._duckdb.PermissionException) and not self._allow_files
            hint = f"; {self._denied}" if denied else self._whose(str(error))
            raise UsageError(_words(str(error)) + hint) from None

    def _whose(self, message: str) -> str:
        """Return the tables that have a column that a query expected in another table."""
        missed = _COLUMN.search(message)
        if missed is None:
            return ""
        column = (missed[1] or missed[2]).lower()
        tables = [name for name, columns in self._columns.items() if column in columns]
        return f" (it is a column of {', '.join(tables)})" if tables else ""


def _words(message: str) -> str:
    """Return DuckDB's message on one line, with the position in the query."""
    place = re.search(r"\n\s*LINE (\d+): (.*)\n(\s*)\^", message)
    text = _KIND.sub("", _PLACE.sub("", message))
    text = "; ".join(" ".join(line.split()) for line in text.split("\n") if line.strip())
    if place is not None:
        start = len(place[3]) - place[0].lstrip("\n").index(place[2])
        near = place[2][max(start, 0) :][:40].strip()
        if near:
            text += f" (line {place[1]}, at {near!r})"
    return f"SQL: {text}"
