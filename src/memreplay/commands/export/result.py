"""The lines of an export as ndjson (txt has the same).

Only the first line is serialized from its record. Native code writes the others; their records are
documentation.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from memreplay.snapshot.record import Record


class SegmentLine(Record, frozen=True, kw_only=True, tag_field="table", tag="segments"):
    """A segment of the final state."""

    segment: int
    """Number."""
    device: int
    address: int
    """Start address."""
    total_size: int
    """Size in bytes."""
    allocated_size: int
    """As in the file; 0 if missing."""
    active_size: int
    """As in the file; 0 if missing."""
    requested_size: int | UnsetType = UNSET
    """As in the file."""
    stream: int
    """Stream."""
    segment_type: str | UnsetType = UNSET
    """`small` or `large`."""
    segment_pool_id: tuple[int, int] | UnsetType = UNSET
    """Pool."""
    is_expandable: bool
    """As in the file; false if missing."""
    stack: int
    """Number of the stack that requested the segment, as listed in a line above; 0 is the empty
    stack.
    """


class BlockLine(Record, frozen=True, kw_only=True, tag_field="table", tag="blocks"):
    """A block of a segment."""

    block: int
    """Number."""
    segment: int
    """Number of the block's segment."""
    address: int
    """Start address."""
    address_given: bool | UnsetType = UNSET
    """Whether the file has the address. If not, the address is inferred, as for PyTorch 2.0."""
    size: int
    """Size in bytes, as rounded by the allocator."""
    requested_size: int | UnsetType = UNSET
    """Requested bytes; for inactive blocks, the size of an earlier request."""
    real_size: int | UnsetType = UNSET
    """Requested bytes from the block's history, which files of PyTorch 2.0 have."""
    state: Literal[
        "inactive", "active_allocated", "active_pending_free", "active_awaiting_free", "unknown"
    ]
    """State."""
    stack: int
    """Number of the stack that allocated the block, as listed in a line above; 0 is the empty
    stack.
    """


class TraceLine(Record, frozen=True, kw_only=True, tag_field="table", tag="traces"):
    """An entry of `device_traces`. The lines of its events follow."""

    trace: int
    """Number."""
    device: int
    events: int
    """Number of events in the whole trace."""
    first_event: int | UnsetType = UNSET
    """With `--from`, `--to` or `--device`: number of the first event that follows."""
    events_read: int | UnsetType = UNSET
    """With the same options: number of events that follow."""


class EventLine(Record, frozen=True, kw_only=True, tag_field="table", tag="events"):
    """An event."""

    event: int
    """Number of the event in its device's whole trace."""
    device: int
    action: str | UnsetType = UNSET
    """Action."""
    addr: int
    """Address; 0 if missing."""
    size: int
    """Size in bytes; for `alloc` and frees, the requested bytes. 0 if missing."""
    stream: int
    """Stream."""
    time_us: int | UnsetType = UNSET
    """Time."""
    stack: int
    """Number of the stack, as listed in a line above; 0 is the empty stack."""
    compile_context: Any | UnsetType = UNSET
    """Text, or any JSON value in the file."""
    user_metadata: Any | UnsetType = UNSET
    """Text, or any JSON value in the file."""
    pool_id: tuple[int, int] | UnsetType = UNSET
    """Pool."""
    device_free: int | UnsetType = UNSET
    """For `oom`: the device's free bytes."""


class StackLine(Record, frozen=True, kw_only=True, tag_field="table", tag="stacks"):
    """A stack, listed before the first row that refers to it."""

    stack: int
    """Number, from 1; 0 is the empty stack, which isn't listed."""
    frames: tuple[int, ...]
    """Frame numbers, innermost first."""


class FrameLine(Record, frozen=True, kw_only=True, tag_field="table", tag="frames"):
    """A frame, listed before the first stack that refers to it."""

    frame: int
    """Number."""
    name: str
    """Function."""
    filename: str
    """Source file."""
    line: int
    """Line."""
    fx_node_op: str | UnsetType = UNSET
    """As in the file."""
    fx_node_name: str | UnsetType = UNSET
    """As in the file."""
    fx_node_target: str | UnsetType = UNSET
    """As in the file."""
    fx_original_trace: str | UnsetType = UNSET
    """As in the file."""


class AnnotationLine(Record, frozen=True, kw_only=True, tag_field="table", tag="annotations"):
    """An entry of `external_annotations`."""

    annotation: int
    """Number."""
    device: int
    """Device index; -1 if there is none."""
    name: str | UnsetType = UNSET
    """Name."""
    stage: str | UnsetType = UNSET
    """`START` or `END`."""
    time_us: int | UnsetType = UNSET
    """Time."""


class FileLine(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.export/1"):
    """The first line, with facts about the file."""

    lines: ClassVar[tuple[type[Record], ...]] = (
        SegmentLine,
        BlockLine,
        TraceLine,
        EventLine,
        AnnotationLine,
        StackLine,
        FrameLine,
    )

    file: str
    file_bytes: int | None
    """Size on disk; null if the file was read from a stream."""
    stream_bytes: int
    """Size after decompression."""
    container: str
    """Container format, as in `memreplay summary`."""
    protocol: int
    """Pickle protocol; -1 for JSON."""
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    allocator_settings: Any | UnsetType = UNSET
    """As in the file."""
    trace_alloc_overflowed: Any | UnsetType = UNSET
    """As in the file."""
    trace_alloc_max_entries: Any | UnsetType = UNSET
    """As in the file."""
    memreplay: Any | UnsetType = UNSET
    """As in the file: the data from [memreplay's recorder](format.md#what-memreplay-adds)."""
