"""A snapshot's tables, as read-only NumPy views (without copies) and as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import memreplay._core as _core
from memreplay.snapshot.once import once
from memreplay.snapshot.record import Arrays
from memreplay.snapshot.staying import Staying
from memreplay.snapshot.tabular import Batched

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay._core import Tables
    from memreplay.engine.read.column import Column


def view(column: Column | int, rows: int, dtype: str) -> NDArray[Any]:
    """Return a column as an array. A constant column takes no memory, because its stride is 0."""
    if isinstance(column, int):
        return np.broadcast_to(np.array(column, dtype=dtype), rows)
    return np.asarray(column)


class Table(Staying, Batched):
    """Base class of the tables.

    Its attributes are NumPy columns with the engine's numbers, e.g. ids and codes. Used as a table
    (rows, `columns`, `to_pandas()`), it's the same as the result of `memreplay.table`: strings
    replace ids, and times have a time type (docs/schema.md).
    """

    def __init__(self, tables: Tables, rows: int, spelled: Callable[[], Batched]) -> None:
        self._tables = tables
        self._rows = rows
        self._spelled = spelled  # this creates the table

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._rows} rows>"

    def _title(self) -> str:
        return f"{type(self).__name__}: {self._rows:,} rows"

    def _arrow_schema(self) -> pa.Schema:
        return self._spelled()._arrow_schema()

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        return self._spelled()._arrow_batches()

    def _event(self, name: str, dtype: str) -> NDArray[Any]:
        return view(self._tables.column(name), self._rows, dtype)

    def _row(self, table: str, field: str) -> NDArray[Any]:
        return np.asarray(self._tables.rows(table, field))

    def _flag(self, table: str, bits: int) -> NDArray[np.bool_]:
        out: NDArray[np.bool_] = (self._row(table, "flags") & bits) != 0
        out.flags.writeable = False
        return out


class Events(Table):
    """All devices' events, in the order of each device's trace; shape (events,)."""

    @once
    def device(self) -> NDArray[np.int32]:
        """The trace's index in `device_traces`."""
        traces = self._tables.traces()
        out = np.repeat(
            np.array([t[0] for t in traces], dtype=np.int32),
            np.array([t[2] for t in traces], dtype=np.int64),
        )
        out.flags.writeable = False
        return out

    @property
    def action(self) -> NDArray[np.uint8]:
        """Action codes; see `Snapshot.action_name`."""
        return self._event("action", "u1")

    @property
    def address(self) -> NDArray[np.uint64]:
        """The block's or segment's address."""
        return self._event("address", "u8")

    @property
    def size(self) -> NDArray[np.int64]:
        """Size in bytes: requested for alloc and free events, actual for segment events."""
        return self._event("size", "i8")

    @property
    def stream(self) -> NDArray[np.uint64]:
        """Stream number."""
        return self._event("stream", "u8")

    @property
    def time_us(self) -> NDArray[np.int64]:
        """Microseconds since the epoch; the smallest int64 if unknown."""
        return self._event("time", "i8")

    @property
    def stack(self) -> NDArray[np.uint32]:
        """Stack ids; 0 is the empty stack."""
        return self._event("stack", "u4")

    @property
    def compile_context(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.metadata`; 2**32 - 1 if none."""
        return self._event("compile_context", "u4")

    @property
    def user_metadata(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.metadata`; 2**32 - 1 if none."""
        return self._event("user_metadata", "u4")

    @property
    def pool(self) -> NDArray[np.uint32]:
        """Pool, as an id to look up with `Snapshot.pool_id`; 2**32 - 1 if the event has no pool."""
        return self._event("pool", "u4")


class Ooms(Arrays, Table):
    """The oom events, which say how much memory was free on the device."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"event": self.event, "device_free": self.device_free}

    @property
    def event(self) -> NDArray[np.uint32]:
        """Rows in `Snapshot.events`, ascending."""
        return view(self._tables.column("oom_event"), self._rows, "u4")

    @property
    def device_free(self) -> NDArray[np.int64]:
        """Free bytes according to the driver."""
        return view(self._tables.column("oom_free"), self._rows, "i8")


class Stacks(Table):
    """Interned call stacks: stack i is `frames[offsets[i]:offsets[i + 1]]`, innermost first."""

    @once
    def offsets(self) -> NDArray[np.int64]:
        """Shape (stacks + 1,)."""
        out = np.asarray(self._tables.column("stack_offsets")).astype(np.int64) // 4
        out.flags.writeable = False
        return out

    @property
    def frames(self) -> NDArray[np.uint32]:
        """Frame ids of all stacks, concatenated."""
        return view(self._tables.column("stack_frames"), 0, "u4")


class Frames(Table):
    """Interned frames. The file, function and fx fields are ids for `Snapshot.text` (0: empty)."""

    @property
    def file(self) -> NDArray[np.uint32]:
        """Source file, as an id to look up with `Snapshot.text`."""
        return self._row("frame", "file")

    @property
    def function(self) -> NDArray[np.uint32]:
        """Function, as an id to look up with `Snapshot.text`."""
        return self._row("frame", "name")

    @property
    def line(self) -> NDArray[np.int64]:
        """Line number; 0 if unknown."""
        return self._row("frame", "line")

    @property
    def fx_node_op(self) -> NDArray[np.uint32]:
        """FX node's operation, as an id to look up with `Snapshot.text`."""
        return self._row("frame", "fx_op")

    @property
    def fx_node_name(self) -> NDArray[np.uint32]:
        """FX node's name, as an id to look up with `Snapshot.text`."""
        return self._row("frame", "fx_name")

    @property
    def fx_node_target(self) -> NDArray[np.uint32]:
        """FX node's target, as an id to look up with `Snapshot.text`."""
        return self._row("frame", "fx_target")

    @property
    def fx_original_trace(self) -> NDArray[np.uint32]:
        """Stack that the FX node was traced from, as an id to look up with `Snapshot.text`."""
        return self._row("frame", "fx_trace")


class Segments(Table):
    """The allocator's segments when the snapshot was dumped, in file order. Sizes are in bytes."""

    @property
    def device(self) -> NDArray[np.int32]:
        """Device number."""
        return self._row("segment", "device")

    @property
    def address(self) -> NDArray[np.uint64]:
        """Start address."""
        return self._row("segment", "address")

    @property
    def total_size(self) -> NDArray[np.int64]:
        """Size of the whole segment."""
        return self._row("segment", "total_size")

    @property
    def allocated_size(self) -> NDArray[np.int64]:
        """Bytes in allocated blocks."""
        return self._row("segment", "allocated_size")

    @property
    def active_size(self) -> NDArray[np.int64]:
        """Bytes in blocks that are allocated or wait for a stream."""
        return self._row("segment", "active_size")

    @property
    def requested_size(self) -> NDArray[np.int64]:
        """Bytes requested for the active blocks; 0 if the file doesn't have the number."""
        return self._row("segment", "requested_size")

    @once
    def has_requested_size(self) -> NDArray[np.bool_]:
        """Whether the file has the requested size; if not, `requested_size` is 0."""
        return self._flag("segment", _core.OWN_REQUESTED)

    @property
    def stream(self) -> NDArray[np.uint64]:
        """Stream number."""
        return self._row("segment", "stream")

    @property
    def type(self) -> NDArray[np.uint32]:
        """Segment type ("small" or "large"), as an id to look up with `Snapshot.text`."""
        return self._row("segment", "type")

    @property
    def pool(self) -> NDArray[np.uint32]:
        """Pool, as an id to look up with `Snapshot.pool_id`; 2**32 - 1 if unknown."""
        return self._row("segment", "pool")

    @property
    def stack(self) -> NDArray[np.uint32]:
        """Stack ids of the requests that created the segments."""
        return self._row("segment", "stack")

    @once
    def is_expandable(self) -> NDArray[np.bool_]:
        """Whether the segment is expandable."""
        return self._flag("segment", _core.EXPANDABLE)


class Blocks(Table):
    """The segments' blocks when the snapshot was dumped.

    Addresses missing in PyTorch 2.0 files are computed.
    """

    @property
    def segment(self) -> NDArray[np.uint32]:
        """The row of the block's segment."""
        return self._row("block", "segment")

    @property
    def address(self) -> NDArray[np.uint64]:
        """Start address."""
        return self._row("block", "address")

    @once
    def has_address(self) -> NDArray[np.bool_]:
        """Whether the file has the block's address."""
        return self._flag("block", _core.HAS_ADDRESS)

    @property
    def size(self) -> NDArray[np.int64]:
        """Size of the block (rounded)."""
        return self._row("block", "size")

    @once
    def requested_size(self) -> NDArray[np.int64]:
        """Requested bytes; if unknown, the block's size. For inactive blocks, the number is out of
        date.
        """
        out: NDArray[np.int64] = np.where(
            self.has_requested_size, self._row("block", "requested"), self.size
        )
        out.flags.writeable = False
        return out

    @once
    def has_requested_size(self) -> NDArray[np.bool_]:
        """Whether the file has a requested size (or, in PyTorch 2.0 files, a history)."""
        return self._flag("block", _core.HAS_REQUESTED)

    @property
    def state(self) -> NDArray[np.uint32]:
        """State codes; see `Snapshot.state_name`. 1 is inactive, all others are active."""
        return self._row("block", "state")

    @property
    def stack(self) -> NDArray[np.uint32]:
        """Stack ids of the blocks' allocations."""
        return self._row("block", "stack")


class Annotations(Table):
    """`external_annotations`: one row per START or END."""

    @property
    def name(self) -> NDArray[np.uint32]:
        """Name, as an id to look up with `Snapshot.text`."""
        return self._row("annotation", "name")

    @property
    def stage(self) -> NDArray[np.uint32]:
        """Stage ("START" or "END"), as an id to look up with `Snapshot.text`."""
        return self._row("annotation", "stage")

    @property
    def device(self) -> NDArray[np.int32]:
        """Device number; -1 if none."""
        return self._row("annotation", "device")

    @property
    def time_us(self) -> NDArray[np.int64]:
        """Microseconds since the epoch."""
        return self._row("annotation", "time")
