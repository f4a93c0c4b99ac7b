"""Batch size, and slicing rows into batches."""

from __future__ import annotations

from collections.abc import Iterator

# Rows per Arrow batch and Parquet row group. A batch needs a few MiB in addition to the snapshot.
ROWS = 1 << 16


def slices(start: int, stop: int) -> Iterator[slice]:
    """Yield the rows `start` to `stop` (exclusive) in slices of up to ROWS."""
    for first in range(start, stop, ROWS):
        yield slice(first, min(first + ROWS, stop))
