"""Write a table as Parquet, with zstd compression, a row group per batch and an encoding per
column.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from memreplay.export.tables.arrow import own_dictionary

if TYPE_CHECKING:
    from memreplay.export.tables.arrow import Table
    from memreplay.export.tables.schema import TableSpec

# Columns whose values rise slowly, or change little relative to their size.
_DELTAS = {
    "events": ("event_index", "time_us"),
    "allocations": (
        "alloc_event",
        "free_requested_event",
        "free_event",
        "alloc_us",
        "free_requested_us",
        "free_us",
    ),
    "stacks": ("stack_id",),
    "frames": ("frame_id", "line"),
    "segments": ("segment_id",),
    "blocks": ("segment_id",),
    "annotations": ("time_us",),
    "usage": (
        "event_index",
        "time_us",
        "requested_bytes",
        "held_bytes",
        "active_bytes",
        "allocated_bytes",
    ),
}
# Columns that zstd compresses faster and equally well without a dictionary, because they have long
# runs or too many distinct addresses. In the other columns, values repeat, so a dictionary helps.
_PLAIN = ("address", "device", "device_free_bytes", "reserved_bytes", "stack_id", "stream")
_CUT_BY = ("device", "event_index", "alloc_event", "time_us", "alloc_us")
COMPRESSION, LEVEL = "zstd", 1


def write_parquet(table: Table, out: IO[bytes]) -> None:
    """Write all rows to an open file. Raises the file's OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    deltas = _DELTAS[table.spec.name]
    with pq.ParquetWriter(
        out,
        table.file_schema,
        compression=COMPRESSION,
        compression_level=LEVEL,
        use_dictionary=_leaves(table.spec, deltas),
        column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        # Only write statistics for columns that readers filter by. Statistics for all columns would
        # take a fifth of the writing time.
        write_statistics=[name for name in _CUT_BY if name in table.file_schema.names],
    ) as writer:
        for batch in table.file_batches():
            # Each row group stores each column's full dictionary, so without shrinking, size would
            # grow quadratically.
            columns = list(map(own_dictionary, batch.columns))
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))


def _leaves(spec: TableSpec, deltas: tuple[str, ...]) -> list[str]:
    """Return the Parquet paths of dictionary columns; a list's items have their own path."""
    names = [column for column in spec.columns if column.name not in (*deltas, *_PLAIN)]
    return [
        f"{column.name}.list.element" if column.type == "ids" else column.name
        for column in names
        if column.type != "bool"
    ]
