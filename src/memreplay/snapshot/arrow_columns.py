"""NumPy columns as Arrow's, and which of them are times. All of it needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, to_builtins

from memreplay.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

NEEDS_PYARROW = "tables need pyarrow"

# Names that end so say how long something takes. All others that end with _us are moments.
_LENGTHS = ("age_us", "after_us", "duration_us", "lifetime_us", "max_us", "min_us", "step_us")


def arrow() -> Any:
    """pyarrow. Raises MissingExtraError that names the extra."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(NEEDS_PYARROW, "parquet") from None
    return pyarrow


# Arrays come from buffers here: pyarrow.array() would import pandas if it is installed, and that
# takes longer than the export of 100 MB, and 60 MiB of memory.


def numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of numbers or flags, in place where they lie next to each other; null at
    the rows of `missing`."""
    pa = arrow()
    flat = np.ascontiguousarray(values)
    valid, nulls = None, 0
    if missing is not None:
        nulls = int(np.count_nonzero(missing))
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little")) if nulls else None
    if flat.dtype == bool:
        kind, data = pa.bool_(), np.packbits(flat, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(flat.dtype), flat
    return pa.Array.from_buffers(kind, len(flat), [valid, pa.py_buffer(data)], nulls)


def time_type(name: str) -> pa.DataType | None:
    """The type of a time or of a length of time, by the name of its int64 column; None for what is
    just a number."""
    if not name.endswith("_us"):
        return None
    pa = arrow()
    return pa.duration("us") if name.endswith(_LENGTHS) else pa.timestamp("us", "UTC")


def timed_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with times as times."""
    pa = arrow()
    fields = [
        field.with_type(kind)
        if field.type == pa.int64() and (kind := time_type(field.name)) is not None
        else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def batch_of(columns: Mapping[str, NDArray[Any]]) -> pa.RecordBatch:
    """NumPy columns of numbers as one batch."""
    return arrow().RecordBatch.from_arrays(
        list(map(numbers, columns.values())), names=list(columns)
    )


def table_of_records(names: Sequence[str], records: Sequence[Struct]) -> pa.Table:
    """Records as a table of these fields, null where a record leaves one out."""
    pa = arrow()
    rows = [to_builtins(one) for one in records]
    columns = [_column(name, [row.get(name) for row in rows]) for name in names]
    return pa.Table.from_arrays(columns, names=list(names))


def _column(name: str, values: list[Any]) -> pa.Array:
    """A column of plain values; as JSON where they are of several kinds."""
    pa = arrow()
    kind = time_type(name) if all(type(one) in (int, type(None)) for one in values) else None
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        texts = [None if one is None else json.dumps(one) for one in values]
        return pa.array(texts, pa.string())


def pandas_frame(table: pa.Table) -> Any:
    """The table as a pandas.DataFrame, numbers with nulls as pandas' nullable integers: as floats
    they would lose digits. Raises MissingExtraError."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("to_pandas() needs pandas: pip install pandas") from None
    nullable = {
        "int32": pandas.Int32Dtype,
        "int64": pandas.Int64Dtype,
        "uint32": pandas.UInt32Dtype,
        "uint64": pandas.UInt64Dtype,
        "bool": pandas.BooleanDtype,
    }
    frame = table.to_pandas()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        kind = nullable.get(str(column.type))
        if kind is not None and column.null_count:
            frame[name] = kind().__from_arrow__(column)
    return frame


def row_of(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    """A row as Python's values. A time that `datetime` can't hold is numpy's."""
    return {
        name: _value(column[row])
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return np.datetime64(scalar.value, "us")
