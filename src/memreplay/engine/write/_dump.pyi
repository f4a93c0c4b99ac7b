"""Python interface to dumps: all rows of a snapshot as lines."""

from collections.abc import Iterator

from memreplay._core import Tables

def dump(tables: Tables, ndjson: bool) -> Iterator[bytes]:
    """Return an iterator over all rows as ASCII lines, about 1 MiB at a time."""
