"""How long a batch is, and a table's rows cut into such."""

from __future__ import annotations

from collections.abc import Iterator

# A row group of Parquet, a batch of Arrow; some MiB of memory above the snapshot's own.
ROWS = 1 << 16


def slices(start: int, stop: int) -> Iterator[slice]:
    """The rows `start` to `stop` (exclusive), up to ROWS at a time."""
    for first in range(start, stop, ROWS):
        yield slice(first, min(first + ROWS, stop))
