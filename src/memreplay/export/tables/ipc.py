"""Write a table as an Arrow IPC file, which can be memory-mapped."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.export.tables.arrow import Table


def write_arrow(table: Table, out: IO[bytes]) -> None:
    """Write all rows to an open file, uncompressed. Raises the file's OSError."""
    import pyarrow as pa

    with pa.ipc.new_file(out, table.file_schema) as writer:
        for batch in table.file_batches():
            writer.write_batch(batch)
