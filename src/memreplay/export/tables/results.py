"""Write a query's rows as they arrive: CSV, JSON, NDJSON, Parquet or text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from memreplay.snapshot.arrow_columns import arrow
from memreplay.texts import json_inert

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.export.tables.querying import Rows


def unique(names: Sequence[str]) -> list[str]:
    """Make column names unique by appending numbers, e.g. `bytes`, `bytes_1`."""
    found: dict[str, None] = {}
    for name in names:
        one, i = name, 0
        while one in found:
            i += 1
            one = f"{name}_{i}"
        found[one] = None
    return list(found)


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column is numeric."""
    types = arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def text_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[list[list[str | None]]]:
    """Yield each batch's columns as text, None for null."""
    for batch in batches:
        yield [_texts(column).to_pylist() for column in batch.columns]


def write_csv(rows: Rows, out: IO[bytes]) -> None:
    """Write a header and a line per row. Nulls become empty fields."""
    import pyarrow.csv

    pa = arrow()
    names = unique(rows.schema.names)
    plain = [_is_plain(field.type) for field in rows.schema]
    kinds = [
        field.type if same else pa.string() for field, same in zip(rows.schema, plain, strict=True)
    ]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with pyarrow.csv.CSVWriter(out, schema, write_options=options) as writer:
        for batch in rows:
            columns = [
                column if same else _texts(column)
                for column, same in zip(batch.columns, plain, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def write_ndjson(rows: Rows, out: IO[bytes]) -> None:
    """Write a JSON object per row with keys in query order."""
    names = unique(rows.schema.names)
    for batch in rows:
        out.write(_objects(names, batch, "\n"))


def write_json(rows: Rows, out: IO[bytes]) -> None:
    """Write the objects of `write_ndjson` as one JSON list."""
    names = unique(rows.schema.names)
    out.write(b"[")
    first = True
    for batch in rows:
        if batch.num_rows:
            out.write(b"\n" if first else b",\n")
            first = False
            out.write(_objects(names, batch, ",\n")[: -len(",\n")])
    out.write(b"\n]\n")


def write_parquet(rows: Rows, out: IO[bytes]) -> None:
    """Write all rows to an open file, with zstd."""
    import pyarrow.parquet as pq

    pa = arrow()
    names = unique(rows.schema.names)
    fields = [field.with_name(name) for field, name in zip(rows.schema, names, strict=True)]
    with pq.ParquetWriter(out, pa.schema(fields), compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields)))


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether Arrow's own text conversion is used for a column."""
    types = arrow().types
    return is_number(kind) or bool(types.is_boolean(kind) or types.is_string(kind))


def _texts(column: pa.Array) -> pa.Array:
    """Format a column as strings, with lists and structs as JSON."""
    pa = arrow()
    types = pa.types
    kind = column.type
    if types.is_string(kind):
        return column
    if types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if types.is_nested(kind) or types.is_interval(kind):
        values = [
            None if one is None else json_inert(json.dumps(json_value(one)))
            for one in column.to_pylist()
        ]
        return pa.array(values, pa.string())
    if types.is_binary(kind) or types.is_large_binary(kind):
        values = [None if one is None else one.hex() for one in column.to_pylist()]
        return pa.array(values, pa.string())
    return column.cast(pa.string())


def json_value(value: Any) -> Any:
    """Convert a value of a list or struct for JSON."""
    if isinstance(value, dict):
        return {str(key): json_value(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _objects(names: Sequence[str], batch: pa.RecordBatch, after: str) -> memoryview:
    """Format the rows as JSON objects, each followed by `after`."""
    import pyarrow.compute as pc

    pa = arrow()
    pieces: list[Any] = []
    for i, (name, column) in enumerate(zip(names, batch.columns, strict=True)):
        opening = ("{" if not i else ", ") + json_inert(json.dumps(name)) + ": "
        pieces += [opening, _json(column)]
    pieces.append("}" + after)
    scalars = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    made = pc.binary_join_element_wise(*scalars, pa.scalar(""))
    _, _, data = made.buffers()
    return memoryview(b"" if data is None else data)


def _json(column: pa.Array) -> pa.Array:
    """Format a column as JSON."""
    import pyarrow.compute as pc

    pa = arrow()
    types = pa.types
    kind = column.type
    if types.is_floating(kind):
        finite = pc.is_finite(column)
        found = pc.if_else(finite, column.cast(pa.string()), pa.scalar(None, pa.string()))
    elif is_number(kind) or any(
        is_kind(kind) for is_kind in (types.is_boolean, types.is_null, types.is_nested)
    ):
        found = _texts(column)
    else:
        coded = _texts(column).dictionary_encode()
        words = pa.array(
            [json_inert(json.dumps(word)) for word in coded.dictionary.to_pylist()], pa.string()
        )
        found = pa.DictionaryArray.from_arrays(coded.indices, words).cast(pa.string())
    return pc.fill_null(found, pa.scalar("null"))
