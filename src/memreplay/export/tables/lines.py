"""Write a table as CSV or JSON lines, one text column at a time."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from memreplay.export.tables.arrow import own_dictionary
from memreplay.snapshot.arrow_columns import arrow
from memreplay.texts import json_inert

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.export.tables.arrow import Table
    from memreplay.export.tables.schema import ColumnSpec


def write_csv(table: Table, out: IO[bytes]) -> None:
    """Write a header and a line per row. Nulls become empty fields, and lists of ids are joined by
    `;`.
    """
    import pyarrow.csv

    pa = arrow()
    names = [column.name for column in table.spec.columns]
    flat = pa.schema(
        [
            pa.field(
                c.name,
                pa.string() if c.type in ("text", "ids") else table.file_schema.field(c.name).type,
            )
            for c in table.spec.columns
        ]
    )
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with pyarrow.csv.CSVWriter(out, flat, write_options=options) as writer:
        for batch in table.file_batches():
            columns = [_flat(c, batch.column(i)) for i, c in enumerate(table.spec.columns)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, names=names))


def write_ndjson(table: Table, out: IO[bytes]) -> None:
    """Write a JSON object per row with keys in table order."""
    for batch in table.file_batches():
        out.write(_objects(table, batch, "\n"))


def write_json(table: Table, out: IO[bytes]) -> None:
    """Write the objects of `write_ndjson` as one JSON list."""
    out.write(b"[")
    first = True
    for batch in table.file_batches():
        if not batch.num_rows:
            continue
        out.write(b"\n" if first else b",\n")
        first = False
        out.write(_objects(table, batch, ",\n")[: -len(",\n")])
    out.write(b"\n]\n")


def _flat(column: ColumnSpec, values: pa.Array) -> pa.Array:
    """Return a column without nested values and dictionaries."""
    if column.type == "text":
        pa = arrow()
        return values.cast(pa.string())
    return _joined(values, ";") if column.type == "ids" else values


def _joined(lists: pa.ListArray, between: str) -> pa.Array:
    import pyarrow.compute as pc

    pa = arrow()
    # Pass a scalar. With a str, pyarrow raises TypeError when it runs out of memory.
    return pc.binary_join(lists.cast(pa.list_(pa.string())), pa.scalar(between))


def _objects(table: Table, batch: pa.RecordBatch, after: str) -> memoryview:
    """Format the rows as JSON objects, each followed by `after`."""
    import pyarrow.compute as pc

    pa = arrow()

    pieces: list[Any] = []
    for i, column in enumerate(table.spec.columns):
        opening = ("{" if not i else ", ") + json.dumps(column.name) + ": "
        pieces += [opening, _json(column, batch.column(i))]
    pieces.append("}" + after)
    scalars = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    rows = pc.binary_join_element_wise(*scalars, pa.scalar(""))
    _, _, data = rows.buffers()
    return memoryview(b"" if data is None else data)


def _json(column: ColumnSpec, values: pa.Array) -> pa.Array:
    """Format a column as JSON."""
    import pyarrow.compute as pc

    pa = arrow()
    if column.type == "ids":
        opening, closing, nothing = map(pa.scalar, ("[", "]", ""))
        found = pc.binary_join_element_wise(opening, _joined(values, ", "), closing, nothing)
    elif column.type == "text":
        # Don't format the full dictionary for each batch, which would take quadratic time.
        values = own_dictionary(values)
        words = pa.array(
            [json_inert(json.dumps(word)) for word in values.dictionary.to_pylist()], pa.string()
        )
        found = pa.DictionaryArray.from_arrays(values.indices, words).cast(pa.string())
    else:
        found = values.cast(pa.string())
    return pc.fill_null(found, pa.scalar("null"))
