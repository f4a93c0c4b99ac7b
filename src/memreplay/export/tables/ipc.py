"""Writes a table as an Arrow file, which can be mapped into memory as it is."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.export.tables.arrow import Table


def write_arrow(table: Table, out: IO[bytes]) -> None:
    """All rows into an open file, not compressed. Raises OSError as the file does."""
    import pyarrow as pa

    with pa.ipc.new_file(out, table.file_schema) as writer:
        for batch in table.file_batches():
            writer.write_batch(batch)
