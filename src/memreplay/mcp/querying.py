"""Run an agent's SQL over a snapshot's tables, in its own process, and cut what it returns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from msgspec import json as encoding

from memreplay.errors import UsageError
from memreplay.render.compact import CompactLine, compact_table
from memreplay.render.units import count, counted
from memreplay.snapshot.arrow_columns import arrow
from memreplay.workers.contained import Bounds

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.export.tables.joined import Joined

MOST_ROWS = 1000
MOST_SECONDS = 20.0
# DuckDB's functions allocate up to this much outside of DuckDB's own limit.
MOST_MEMORY = 1 << 30
BOUNDS = Bounds(MOST_MEMORY, MOST_SECONDS, threads=2, defers=True)
LONGEST_CELL = 2_100  # characters; an answer's cells are shorter still
LONGEST_ROW = 8_000  # characters, so that rows with many columns take little memory
_SETTINGS = {"memory_limit": "512MB", "threads": f"{BOUNDS.threads}"}
_BATCH = 64  # rows that become text at the same time
_NO_FILES = "a query sees only the tables: no files, network or extensions"
_NULL = "null"


def answer(tables: Mapping[str, Joined], query: str, out: IO[bytes]) -> None:
    """Write a query's rows as JSON, for `read_answer`. Raises UsageError for an invalid query."""
    from memreplay.export.tables.querying import Queries

    queries = Queries(tables, settings=_SETTINGS, denied=_NO_FILES)
    if not queries.only_asks(query):
        raise UsageError(
            "SQL: only queries can run here: select, with, describe, summarize, explain"
        )
    rows = queries.result(query)
    if rows is None:
        raise UsageError("the query is empty")
    found: list[list[str]] = []
    for row in _texts(rows):
        found.append(row)
        if len(found) > MOST_ROWS:
            break
    more = len(found) > MOST_ROWS
    total = f"the first {count(MOST_ROWS)} rows; aggregate, or page with limit and offset"
    head = CompactLine(total if more else counted(len(found), "row"))
    names = [name[:LONGEST_CELL] for name in rows.schema.names]
    out.write(encoding.encode([head, *compact_table(names, found[:MOST_ROWS])]))


def read_answer(said: bytes) -> list[CompactLine]:
    """Read the lines that `answer` wrote."""
    return encoding.decode(said, type=list[CompactLine])


def _texts(batches: Any) -> Iterator[list[str]]:
    """Yield each row as text, with long cells and rows cut while they're read."""
    from memreplay.export.tables.results import text_columns

    for whole in batches:
        for start in range(0, whole.num_rows, _BATCH):
            batch = whole.slice(start, _BATCH)
            if batch.nbytes <= LONGEST_CELL * _BATCH:
                columns = next(text_columns([batch]))
                rows = (list(row) for row in zip(*columns, strict=True))
            else:
                rows = (_cut_row(batch, i) for i in range(batch.num_rows))
            for row in rows:
                yield [_NULL if cell is None else cell for cell in row]


def _cut_row(batch: pa.RecordBatch, i: int) -> list[str | None]:
    left = LONGEST_ROW
    cells: list[str | None] = []
    for column in batch.columns:
        cell = _cut_cell(column.slice(i, 1), min(left, LONGEST_CELL))
        cells.append(cell)
        left -= len(cell or _NULL)
        if left <= 0:
            break
    return cells


def _cut_cell(one: pa.Array, most: int) -> str | None:
    """Return a value's text, or its start if it's long. Reads only as much as it returns."""
    import pyarrow.compute as pc

    from memreplay.export.tables.results import text_columns

    if one.nbytes > most and one.null_count == 0:
        types = arrow().types
        if types.is_string(one.type) or types.is_large_string(one.type):
            one = pc.utf8_slice_codeunits(one, 0, most)
        elif types.is_binary(one.type) or types.is_large_binary(one.type):
            one = pc.binary_slice(one, 0, most // 2)
        elif types.is_nested(one.type):
            return "".join(_pieces(one[0], most))
    (cell,) = next(text_columns([_as_batch(one)]))[0]
    return cell


def _pieces(value: Any, most: int) -> Iterator[str]:
    """Yield the JSON of a nested value, up to about this many characters."""
    from memreplay.export.tables.results import json_value

    types = arrow().types
    kind = value.type
    if not value.is_valid:
        yield _NULL
    elif types.is_string(kind):
        yield json.dumps(value.as_buffer()[:most].to_pybytes().decode(errors="ignore"))
    elif types.is_binary(kind):
        yield json.dumps(str(value.as_buffer()[:most].to_pybytes()))
    elif not types.is_nested(kind):
        yield json.dumps(json_value(value.as_py()))
    else:
        yield "{" if types.is_struct(kind) else "["
        between, left = "", most
        for name, inner in _items(value):
            part = between + name + "".join(_pieces(inner, left))
            yield part
            between, left = ", ", left - len(part)
            if left <= 0:
                return
        yield "}" if types.is_struct(kind) else "]"


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a nested value's parts, each with its name if it's part of a struct."""
    types = arrow().types
    if types.is_struct(value.type):
        for i, field in enumerate(value.type):
            yield f"{json.dumps(field.name[:LONGEST_CELL])}: ", value[i]
    else:
        for inner in value.values:
            yield "", _Pair(inner) if types.is_map(value.type) else inner


class _Pair:
    """A key and a value of a map, which look like a list of two."""

    is_valid = True

    def __init__(self, entry: Any) -> None:
        self.type = arrow().list_(arrow().null())
        self.values = (entry[0], entry[1])


def _as_batch(one: pa.Array) -> pa.RecordBatch:
    return arrow().RecordBatch.from_arrays([one], names=["cell"])


def listing(tables: Mapping[str, Joined]) -> list[CompactLine]:
    """Return a line per table: its rows, its columns and their types, with ? if nullable."""
    from memreplay.export.tables.schema import table_spec

    lines = []
    for name, one in tables.items():
        spec = table_spec(one.table, flat=one.is_flat)
        columns = (f"{c.name} {c.type}{'?' if c.nullable else ''}" for c in spec.columns)
        lines.append(CompactLine(f"{name} ({counted(one.rows, 'row')}): {', '.join(columns)}"))
    return lines
