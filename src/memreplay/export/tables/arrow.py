"""Arrow types of the tables, and a table as a stream of batches that any Arrow library takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.errors import LimitError, MissingExtraError
from memreplay.export.tables.schema import NEEDS_PYARROW
from memreplay.snapshot.brief import MOST_ROWS, html_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay.export.tables.schema import TableSpec, Type

_MOST_TEXT = (1 << 31) - 1  # bytes of a string array


def arrow() -> Any:
    """pyarrow. Raises MissingExtraError that names the extra."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(NEEDS_PYARROW, "parquet") from None
    return pyarrow


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column."""
    pa = arrow()
    if kind == "text":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "ids":
        return pa.list_(pa.field("element", pa.uint32(), nullable=False))
    return pa.bool_() if kind == "bool" else getattr(pa, kind)()


def arrow_schema(
    spec: TableSpec, metadata: Mapping[str, str], labels: Iterable[str] = ()
) -> pa.Schema:
    """The Arrow schema of a table, with columns of text after its own."""
    pa = arrow()
    fields = [pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in spec.columns]
    fields += [pa.field(name, arrow_type("text")) for name in labels]
    return pa.schema(fields, metadata=dict(metadata))


# Arrays are made of buffers here: pyarrow.array() would import pandas, where that is installed, and
# that takes longer than the export of 100 MB, and 60 MiB of memory.


def numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of numbers or flags, in place where they lie next to each other; null where
    `missing` says so."""
    pa = arrow()
    flat = np.ascontiguousarray(values)
    if flat.dtype == bool:
        data = np.packbits(flat, bitorder="little")
        return _array(pa.bool_(), len(flat), data, missing)
    return _array(pa.from_numpy_dtype(flat.dtype), len(flat), flat, missing)


def texts(
    ids: NDArray[Any], words: pa.Array, missing: NDArray[np.bool_] | None = None
) -> pa.DictionaryArray:
    """A column of strings: `words[ids]`, null where `missing` says so."""
    indices = numbers(np.ascontiguousarray(ids, dtype=np.int32), missing)
    return arrow().DictionaryArray.from_arrays(indices, words, safe=False)


def spelled(text: str) -> str:
    """A text that Arrow can hold: half of a surrogate pair is written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def words_array(words: Sequence[str]) -> pa.Array:
    """Strings as a dictionary for `texts`, each there once."""
    pa = arrow()
    raw = [spelled(word).encode() for word in words]
    offsets = np.zeros(len(raw) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    if offsets[-1] > _MOST_TEXT:
        raise LimitError(f"{offsets[-1]} bytes of names in one column, more than Arrow's limit")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


def own_words(column: pa.Array) -> pa.Array:
    """The same column of a batch; one of text with no more words than it has rows."""
    pa = arrow()
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) <= len(column):
        return column
    used = column.indices.dictionary_encode()
    words = column.dictionary.take(used.dictionary)
    return pa.DictionaryArray.from_arrays(used.indices, words)


def _array(
    kind: pa.DataType, rows: int, data: NDArray[Any], missing: NDArray[np.bool_] | None
) -> pa.Array:
    pa = arrow()
    valid, nulls = None, 0
    if missing is not None:
        nulls = int(np.count_nonzero(missing))
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(data)], nulls)


class Table:
    """One table of a snapshot, made a batch at a time whenever it is read.

    Any library that takes Arrow streams (pyarrow, polars, duckdb, pandas) takes it as it is. `rows`
    is its length, `schema` its Arrow schema. `labels` are columns that say the same in every row.
    """

    def __init__(
        self,
        spec: TableSpec,
        metadata: Mapping[str, str],
        rows: int,
        make: Callable[[], Iterator[dict[str, pa.Array]]],
        labels: Mapping[str, str | None] | None = None,
    ) -> None:
        self.spec = spec
        self.rows = rows
        self.labels = dict(labels or {})
        self.schema = arrow_schema(spec, metadata, self.labels)
        self._make = make

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"<Table {self.spec.name}: {self.rows} rows>"

    def _repr_html_(self) -> str:
        """Its first rows."""
        names = tuple(self.schema.names)
        columns: list[list[object]] = [[] for _ in names]
        for batch in self.batches():
            left = MOST_ROWS - len(columns[0])
            for column, more in zip(columns, batch.slice(0, left).columns, strict=True):
                column += more.to_pylist()
            if len(columns[0]) == min(MOST_ROWS, self.rows):
                break
        return html_columns(f"{self.spec.name}: {self.rows:,} rows", names, columns, self.rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, up to `batching.ROWS` at a time."""
        pa = arrow()
        for columns in self._make():
            arrays = [columns[column.name] for column in self.spec.columns]
            rows = len(arrays[0])
            arrays += [
                texts(
                    np.zeros(rows, dtype=np.int32),
                    words_array([word or ""]),
                    None if word is not None else np.ones(rows, dtype=bool),
                )
                for word in self.labels.values()
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def reader(self) -> pa.RecordBatchReader:
        """The batches as pyarrow's reader."""
        return arrow().RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: the batches as a stream."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow PyCapsule interface: the schema alone."""
        return self.schema.__arrow_c_schema__()

    def to_arrow(self) -> pa.Table:
        """All of it as a pyarrow.Table."""
        return self.reader().read_all()

    def to_pandas(self) -> Any:
        """All of it as a pandas.DataFrame. Raises MissingExtraError."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise MissingExtraError("to_pandas() needs pandas: pip install pandas") from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All of it as a polars.DataFrame. Raises MissingExtraError."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("to_polars() needs polars: pip install polars") from None
        return polars.from_arrow(self.to_arrow())
