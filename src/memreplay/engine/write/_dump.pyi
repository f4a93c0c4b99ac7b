"""The façade over dumps: all rows of a snapshot as lines."""

from collections.abc import Iterator

from memreplay._core import Tables

def dump(tables: Tables, ndjson: bool) -> Iterator[bytes]:
    """An iterator over all rows as lines in ASCII, about a MiB of bytes at a time."""
