"""Arrow types of the tables, and a table as a stream that any Arrow library can import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.errors import LimitError
from memreplay.snapshot.arrow_columns import arrow, numbers, timed_schema
from memreplay.snapshot.tabular import Batched

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay.export.tables.schema import TableSpec, Type

_MOST_TEXT = (1 << 31) - 1  # maximum number of bytes in a string array


def arrow_type(kind: Type) -> pa.DataType:
    """Return a column's Arrow type."""
    pa = arrow()
    if kind == "text":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "ids":
        return pa.list_(pa.field("element", pa.uint32(), nullable=False))
    return pa.bool_() if kind == "bool" else getattr(pa, kind)()


def arrow_schema(
    spec: TableSpec, metadata: Mapping[str, str], labels: Iterable[str] = ()
) -> pa.Schema:
    """Return a table's Arrow schema, followed by text columns for `labels`."""
    pa = arrow()
    fields = [pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in spec.columns]
    fields += [pa.field(name, arrow_type("text")) for name in labels]
    return pa.schema(fields, metadata=dict(metadata))


def texts(
    ids: NDArray[Any], words: pa.Array, missing: NDArray[np.bool_] | None = None
) -> pa.DictionaryArray:
    """Build a string column: `words[ids]`, null where `missing` is true."""
    indices = numbers(np.ascontiguousarray(ids, dtype=np.int32), missing)
    return arrow().DictionaryArray.from_arrays(indices, words, safe=False)


def spelled(text: str) -> str:
    """Return text that Arrow can store, with lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def dictionary_array(words: Sequence[str]) -> pa.Array:
    """Build the dictionary for `texts`, without duplicates."""
    pa = arrow()
    raw = [spelled(word).encode() for word in words]
    offsets = np.zeros(len(raw) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    if offsets[-1] > _MOST_TEXT:
        raise LimitError(f"{offsets[-1]} bytes of names in one column, more than Arrow allows")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


def own_dictionary(column: pa.Array) -> pa.Array:
    """Shrink a batch's dictionary so that it has no more entries than the batch has rows."""
    pa = arrow()
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) <= len(column):
        return column
    used = column.indices.dictionary_encode()
    words = column.dictionary.take(used.dictionary)
    return pa.DictionaryArray.from_arrays(used.indices, words)


class Table(Batched):
    """One of a snapshot's tables. Every read builds its batches again.

    `schema`: its Arrow schema. `labels`: constant columns. Files store times as integer
    microseconds: see `file_schema` and `file_batches()`.
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
        self.file_schema = arrow_schema(spec, metadata, self.labels)
        self.schema = timed_schema(self.file_schema)
        self._make = make

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"<Table {self.spec.name}: {self.rows} rows>"

    def _title(self) -> str:
        return f"{self.spec.name}: {self.rows:,} rows"

    def _arrow_schema(self) -> pa.Schema:
        return self.schema

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        return self.batches()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, up to `batching.ROWS` per batch."""
        for batch in self.file_batches():
            yield batch.cast(self.schema)

    def file_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the types used in files."""
        pa = arrow()
        for columns in self._make():
            arrays = [columns[column.name] for column in self.spec.columns]
            rows = len(arrays[0])
            arrays += [
                texts(
                    np.zeros(rows, dtype=np.int32),
                    dictionary_array([word or ""]),
                    None if word is not None else np.ones(rows, dtype=bool),
                )
                for word in self.labels.values()
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.file_schema)

    def reader(self) -> pa.RecordBatchReader:
        """Return the batches as a pyarrow reader."""
        return self._arrow_reader()
