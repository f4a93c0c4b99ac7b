"""The exported tables as data: columns, types, units and order.

docs/schema.md describes them for people; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memreplay.errors import UsageError

# Incremented when a column's meaning, type or name changes, but not for a new column.
VERSION = 1

# text: a dictionary of strings. ids: a list of uint32.
Type = Literal["bool", "int32", "int64", "uint32", "uint64", "text", "ids"]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column. `nullable`: a row may have no value."""

    name: str
    type: Type
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: its columns, in order, and its sort key."""

    name: str
    columns: tuple[ColumnSpec, ...]


def _of(name: str, columns: str) -> TableSpec:
    """Parse a table from lines of `name type`, with `?` after the type for nullable."""
    found = []
    for line in columns.split("\n"):
        if line.strip():
            column, kind = line.split()
            found.append(ColumnSpec(column, kind.rstrip("?"), kind.endswith("?")))  # type: ignore[arg-type]
    return TableSpec(name, tuple(found))


EVENTS = _of(
    "events",
    """
    device             int32
    event_index        int64
    action             text?
    address            uint64
    bytes              int64
    time_us            int64?
    stream             uint64
    stack_id           uint32
    pool               text?
    compile_context    text?
    user_metadata      text?
    device_free_bytes  int64?
    """,
)
ALLOCATIONS = _of(
    "allocations",
    """
    device                  int32
    address                 uint64
    bytes                   int64
    block_bytes             int64
    alloc_event             int64?
    free_requested_event    int64?
    free_event              int64?
    alloc_us                int64?
    free_requested_us       int64?
    free_us                 int64?
    stream                  uint64?
    pool                    text?
    stack_id                uint32
    category                text
    state                   text
    carried_over            bool
    phase                   text
    module                  text?
    """,
)
# Columns that a flat table adds to the allocations, with the call site as text.
FLAT = _of(
    "allocations",
    """
    function  text?
    file      text?
    line      int64?
    is_user   bool?
    """,
)
FLAT_ALLOCATIONS = TableSpec(ALLOCATIONS.name, ALLOCATIONS.columns + FLAT.columns)
USAGE = _of(
    "usage",
    """
    device           int32
    event_index      int64?
    time_us          int64?
    requested_bytes  int64
    held_bytes       int64
    active_bytes     int64
    allocated_bytes  int64
    reserved_bytes   int64
    """,
)
STACKS = _of(
    "stacks",
    """
    stack_id       uint32
    user_frame_id  uint32?
    frame_ids      ids
    """,
)
FRAMES = _of(
    "frames",
    """
    frame_id           uint32
    function           text
    file               text
    line               int64
    is_user            bool
    fx_node_op         text?
    fx_node_name       text?
    fx_node_target     text?
    fx_original_trace  text?
    """,
)
SEGMENTS = _of(
    "segments",
    """
    segment_id       uint32
    device           int32
    address          uint64
    bytes            int64
    allocated_bytes  int64
    active_bytes     int64
    requested_bytes  int64?
    stream           uint64
    type             text?
    pool             text?
    stack_id         uint32
    is_expandable    bool
    """,
)
BLOCKS = _of(
    "blocks",
    """
    segment_id       uint32
    device           int32
    address          uint64
    bytes            int64
    requested_bytes  int64?
    state            text
    stack_id         uint32
    """,
)
ANNOTATIONS = _of(
    "annotations",
    """
    device   int32
    time_us  int64?
    stage    text?
    name     text?
    """,
)

TABLES = {
    spec.name: spec
    for spec in (
        EVENTS,
        ALLOCATIONS,
        STACKS,
        FRAMES,
        SEGMENTS,
        BLOCKS,
        ANNOTATIONS,
        USAGE,
    )
}


def table_spec(name: str, *, flat: bool = False) -> TableSpec:
    """Return a table's spec; `flat` adds columns for the call site. Raises UsageError."""
    if name not in TABLES:
        raise UsageError(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    if flat and name != ALLOCATIONS.name:
        raise UsageError(f"the table {name} has no flat form; only {ALLOCATIONS.name} has")
    return FLAT_ALLOCATIONS if flat else TABLES[name]


def tables_named(names: str) -> tuple[str, ...]:
    """Parse a comma-separated list of tables, without duplicates. Raises UsageError."""
    found = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not found:
        raise UsageError("no table was given")
    return tuple(table_spec(name).name for name in found)
