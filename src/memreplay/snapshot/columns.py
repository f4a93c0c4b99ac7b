"""The tables of a snapshot: NumPy views, read-only and without a copy, and rows for callers."""

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
    """A column as an array; one that is the same number everywhere takes no memory (stride 0)."""
    if isinstance(column, int):
        return np.broadcast_to(np.array(column, dtype=dtype), rows)
    return np.asarray(column)


class Table(Staying, Batched):
    """Base of the tables.

    Its attributes are NumPy columns of numbers, as the engine has them: ids, codes. As a table
    (rows, `columns`, `to_pandas()`) it is what `memreplay.table` makes: texts in place of
    ids, times as times (docs/schema.md).
    """

    def __init__(self, tables: Tables, rows: int, spelled: Callable[[], Batched]) -> None:
        self._tables = tables
        self._rows = rows
        self._spelled = spelled  # makes that table

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
    """All events of all devices, each device's in the order of its trace; shape (events,)."""

    @once
    def device(self) -> NDArray[np.int32]:
        """The place of the event's trace in `device_traces`."""
        traces = self._tables.traces()
        out = np.repeat(
            np.array([t[0] for t in traces], dtype=np.int32),
            np.array([t[2] for t in traces], dtype=np.int64),
        )
        out.flags.writeable = False
        return out

    @property
    def action(self) -> NDArray[np.uint8]:
        """Action codes; `Snapshot.action_name` spells them."""
        return self._event("action", "u1")

    @property
    def address(self) -> NDArray[np.uint64]:
        """The address of the block or segment."""
        return self._event("address", "u8")

    @property
    def size(self) -> NDArray[np.int64]:
        """Bytes: requested for alloc and free events, real for segment events."""
        return self._event("size", "i8")

    @property
    def stream(self) -> NDArray[np.uint64]:
        """The stream's number."""
        return self._event("stream", "u8")

    @property
    def time_us(self) -> NDArray[np.int64]:
        """Microseconds since the epoch; the smallest int64 where the event has no time."""
        return self._event("time", "i8")

    @property
    def stack(self) -> NDArray[np.uint32]:
        """Stack ids; 0 is the stack of no frames."""
        return self._event("stack", "u4")

    @property
    def compile_context(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.metadata`; 2**32 - 1 where there is none."""
        return self._event("compile_context", "u4")

    @property
    def user_metadata(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.metadata`; 2**32 - 1 where there is none."""
        return self._event("user_metadata", "u4")

    @property
    def pool(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.pool_id`; 2**32 - 1 where the event says none."""
        return self._event("pool", "u4")


class Ooms(Arrays, Table):
    """The events that say how much memory the device had free: those of the action oom."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"event": self.event, "device_free": self.device_free}

    @property
    def event(self) -> NDArray[np.uint32]:
        """Rows of `Snapshot.events`, ascending."""
        return view(self._tables.column("oom_event"), self._rows, "u4")

    @property
    def device_free(self) -> NDArray[np.int64]:
        """Bytes, by the driver's word."""
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
        """Frame ids of all stacks, one after the other."""
        return view(self._tables.column("stack_frames"), 0, "u4")


class Frames(Table):
    """Interned frames; file, function and fx fields are ids for `Snapshot.text` (0: the empty
    text)."""

    @property
    def file(self) -> NDArray[np.uint32]:
        """The source file; ids for `Snapshot.text`."""
        return self._row("frame", "file")

    @property
    def function(self) -> NDArray[np.uint32]:
        """The function; ids for `Snapshot.text`."""
        return self._row("frame", "name")

    @property
    def line(self) -> NDArray[np.int64]:
        """The line; 0 where it is not known."""
        return self._row("frame", "line")

    @property
    def fx_node_op(self) -> NDArray[np.uint32]:
        """The FX node's operation; ids for `Snapshot.text`."""
        return self._row("frame", "fx_op")

    @property
    def fx_node_name(self) -> NDArray[np.uint32]:
        """The FX node's name; ids for `Snapshot.text`."""
        return self._row("frame", "fx_name")

    @property
    def fx_node_target(self) -> NDArray[np.uint32]:
        """What the FX node calls; ids for `Snapshot.text`."""
        return self._row("frame", "fx_target")

    @property
    def fx_original_trace(self) -> NDArray[np.uint32]:
        """The stack that the FX node was traced from; ids for `Snapshot.text`."""
        return self._row("frame", "fx_trace")


class Segments(Table):
    """The allocator's segments at the dump, in the file's order. Sizes are bytes."""

    @property
    def device(self) -> NDArray[np.int32]:
        """The number of its device."""
        return self._row("segment", "device")

    @property
    def address(self) -> NDArray[np.uint64]:
        """Where it begins."""
        return self._row("segment", "address")

    @property
    def total_size(self) -> NDArray[np.int64]:
        """Bytes of the whole segment."""
        return self._row("segment", "total_size")

    @property
    def allocated_size(self) -> NDArray[np.int64]:
        """Bytes of blocks that are allocated."""
        return self._row("segment", "allocated_size")

    @property
    def active_size(self) -> NDArray[np.int64]:
        """Bytes of blocks that are allocated or wait for a stream."""
        return self._row("segment", "active_size")

    @property
    def requested_size(self) -> NDArray[np.int64]:
        """Bytes that were requested of these; 0 where the file does not say."""
        return self._row("segment", "requested_size")

    @once
    def has_requested_size(self) -> NDArray[np.bool_]:
        """Whether the file gives a requested size; it is 0 where it does not."""
        return self._flag("segment", _core.OWN_REQUESTED)

    @property
    def stream(self) -> NDArray[np.uint64]:
        """The number of its stream."""
        return self._row("segment", "stream")

    @property
    def type(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.text`: small or large."""
        return self._row("segment", "type")

    @property
    def pool(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.pool_id`; 2**32 - 1 where the file says none."""
        return self._row("segment", "pool")

    @property
    def stack(self) -> NDArray[np.uint32]:
        """Stack ids: who asked for it."""
        return self._row("segment", "stack")

    @once
    def is_expandable(self) -> NDArray[np.bool_]:
        """Whether it grows by pages."""
        return self._flag("segment", _core.EXPANDABLE)


class Blocks(Table):
    """The blocks of the segments at the dump. Addresses of 2.0-era blocks are worked out."""

    @property
    def segment(self) -> NDArray[np.uint32]:
        """Row of the block's segment."""
        return self._row("block", "segment")

    @property
    def address(self) -> NDArray[np.uint64]:
        """Where it begins."""
        return self._row("block", "address")

    @once
    def has_address(self) -> NDArray[np.bool_]:
        """Whether the file gives the address."""
        return self._flag("block", _core.HAS_ADDRESS)

    @property
    def size(self) -> NDArray[np.int64]:
        """Bytes of the block itself: rounded."""
        return self._row("block", "size")

    @once
    def requested_size(self) -> NDArray[np.int64]:
        """Requested bytes; the size where the file says none. Stale for inactive blocks."""
        out: NDArray[np.int64] = np.where(
            self.has_requested_size, self._row("block", "requested"), self.size
        )
        out.flags.writeable = False
        return out

    @once
    def has_requested_size(self) -> NDArray[np.bool_]:
        """Whether the file gives a requested size (or, in 2.0-era files, a history)."""
        return self._flag("block", _core.HAS_REQUESTED)

    @property
    def state(self) -> NDArray[np.uint32]:
        """Codes; `Snapshot.state_name` spells them. 1 is inactive, all others are active."""
        return self._row("block", "state")

    @property
    def stack(self) -> NDArray[np.uint32]:
        """Stack ids: who allocated it."""
        return self._row("block", "stack")


class Annotations(Table):
    """`external_annotations`: one row a START or END."""

    @property
    def name(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.text`."""
        return self._row("annotation", "name")

    @property
    def stage(self) -> NDArray[np.uint32]:
        """Ids for `Snapshot.text`: START or END."""
        return self._row("annotation", "stage")

    @property
    def device(self) -> NDArray[np.int32]:
        """The number of its device; -1 where there is none."""
        return self._row("annotation", "device")

    @property
    def time_us(self) -> NDArray[np.int64]:
        """Microseconds since the epoch."""
        return self._row("annotation", "time")
