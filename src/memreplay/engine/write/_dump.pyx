"""Python interface to dumps, which write each row of a snapshot as a line."""

from memreplay._core cimport Tables
from memreplay.engine.write.dump cimport dump_lines


def dump(Tables tables not None, bint ndjson):
    """Return an iterator over all rows as ASCII lines, about 1 MiB at a time."""
    return dump_lines(tables, &tables.t, ndjson)
