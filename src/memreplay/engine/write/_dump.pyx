"""The façade over dumps: all rows of a snapshot as lines."""

from memreplay._core cimport Tables
from memreplay.engine.write.dump cimport dump_lines


def dump(Tables tables not None, bint ndjson):
    """An iterator over all rows as lines in ASCII, about a MiB of bytes at a time."""
    return dump_lines(tables, &tables.t, ndjson)
