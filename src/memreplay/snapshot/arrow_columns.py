"""Convert NumPy columns to Arrow, using its time types. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from msgspec import Struct, UnsetType

from memreplay.declared import hints_of, is_record, json_fields, without_none
from memreplay.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

NEEDS_PYARROW = "tables need pyarrow"

# Fields with these endings are durations. Other fields that end in _us are points in time.
_LENGTHS = ("age_us", "after_us", "duration_us", "lifetime_us", "max_us", "min_us", "step_us")


def arrow() -> Any:
    """Import pyarrow. Raises MissingExtraError with the extra's name."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(NEEDS_PYARROW, "parquet") from None
    return pyarrow


# Arrays are created from buffers because pyarrow.array() imports pandas if it's installed. That
# import takes longer than exporting 100 MB, and takes 60 MiB of memory.


def numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column of numbers or flags, without a copy if contiguous. Rows in `missing` are
    null.
    """
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
    """Return the Arrow type for an int64 column of times or durations, recognized by its name; None
    for other columns.
    """
    if not name.endswith("_us"):
        return None
    pa = arrow()
    return pa.duration("us") if name.endswith(_LENGTHS) else pa.timestamp("us", "UTC")


def timed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with time types."""
    pa = arrow()
    fields = [
        field.with_type(kind)
        if field.type == pa.int64() and (kind := time_type(field.name)) is not None
        else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def batch_of(columns: Mapping[str, NDArray[Any]]) -> pa.RecordBatch:
    """Return a batch made of NumPy columns of numbers."""
    return arrow().RecordBatch.from_arrays(
        list(map(numbers, columns.values())), names=list(columns)
    )


def table_of_records(
    names: Sequence[str], rows: Sequence[Mapping[str, Any]], kinds: Iterable[type[Struct]]
) -> pa.Table:
    """Return a table of records, given as dicts, with these fields. A field that a record lacks is
    null. `kinds`: the records' types, whose fields decide the columns' types, so that tables of the
    same records always have the same schema.
    """
    pa = arrow()
    types: dict[str, Any] = {}
    for kind in kinds:
        for name, one in fields_of(kind).items():
            types[name] = one if types.get(name, one) == one else None
    columns = [_column(types.get(name), [row.get(name) for row in rows]) for name in names]
    return pa.Table.from_arrays(columns, names=list(names))


def _column(kind: pa.DataType | None, values: list[Any]) -> pa.Array:
    """Return a column of plain values, as JSON if they don't have one type."""
    pa = arrow()
    unfit = (pa.ArrowException, OverflowError, TypeError, ValueError)
    with suppress(*unfit):
        return pa.array(values, kind)
    with suppress(*unfit):
        return pa.array(values)
    texts = [None if one is None else json.dumps(one) for one in values]
    return pa.array(texts, pa.string())


@cache
def fields_of(kind: type[Struct]) -> dict[str, pa.DataType | None]:
    """Return the Arrow types of a record's fields; None if only the values can tell."""
    return _fields(kind, ())


def _fields(kind: type[Struct], within: tuple[type[Struct], ...]) -> dict[str, pa.DataType | None]:
    hints, within = hints_of(kind), (*within, kind)
    return {name: _type(name, hints.get(name), within) for name in json_fields(kind)}


def _type(name: str, hint: Any, within: tuple[type[Struct], ...]) -> pa.DataType | None:
    """Return the Arrow type for a field with this name and annotation in these records."""
    pa = arrow()
    hint, _ = without_none(hint)
    of, args = get_origin(hint), get_args(hint)
    if of is Annotated:
        return _type(name, args[0], within)
    if of in (Union, UnionType):  # such as int | UnsetType
        known = [one for one in args if one is not UnsetType]
        return _type(name, known[0], within) if len(known) == 1 else None
    if of is Literal:
        kinds = {*map(type, args)}
        return _type(name, kinds.pop(), within) if len(kinds) == 1 else None
    if of in (tuple, list) and args and (len({*args} - {...}) == 1):
        item = _type("", args[0], within)
        return None if item is None else pa.list_(item)
    if is_record(hint):
        if hint in within:  # Arrow has no recursive types
            return None
        fields = _fields(hint, within)
        complete = None not in fields.values()
        return pa.struct(list(fields.items())) if complete else None
    plain = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    found = plain.get(hint)
    return time_type(name) or found if hint is int else found


def pandas_frame(table: pa.Table) -> Any:
    """Return the table as a pandas.DataFrame, with nullable integer types.

    Otherwise, integers with nulls would become floats and lose digits. Raises MissingExtraError.
    """
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
    """Return a row as Python values. A time that `datetime` can't represent is a NumPy value."""
    return {
        name: _value(column[row])
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return np.datetime64(scalar.value, "us")
