"""Writes a table as Parquet: zstd, a row group a batch, the encodings that fit its columns."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from memreplay.export.tables.arrow import own_words

if TYPE_CHECKING:
    from memreplay.export.tables.arrow import Table
    from memreplay.export.tables.schema import TableSpec

# What rises slowly, or goes up and down by little of its own size.
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
# What zstd alone makes as small, and in less time, than a dictionary before it: runs of the same
# number, or addresses, which are too many. All else repeats itself, and a dictionary finds that.
_PLAIN = ("address", "device", "device_free_bytes", "reserved_bytes", "stack_id", "stream")
_CUT_BY = ("device", "event_index", "alloc_event", "time_us", "alloc_us")
COMPRESSION, LEVEL = "zstd", 1


def write_parquet(table: Table, out: IO[bytes]) -> None:
    """All rows into an open file. Raises OSError as the file does."""
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
        # Of what a reader cuts ranges by: of all columns they cost a fifth of the writing.
        write_statistics=[name for name in _CUT_BY if name in table.file_schema.names],
    ) as writer:
        for batch in table.file_batches():
            # A row group is written with all words of its columns: with many of them, the whole
            # would grow with the square.
            columns = list(map(own_words, batch.columns))
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))


def _leaves(spec: TableSpec, deltas: tuple[str, ...]) -> list[str]:
    """The columns that have a dictionary, as Parquet calls them: a list's items have a path."""
    names = [column for column in spec.columns if column.name not in (*deltas, *_PLAIN)]
    return [
        f"{column.name}.list.element" if column.type == "ids" else column.name
        for column in names
        if column.type != "bool"
    ]
