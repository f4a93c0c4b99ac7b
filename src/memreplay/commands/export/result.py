"""The lines of an export as txt, event by event, as those of ndjson have them.

The first is made of its record. The others are written by native code, and their records say what
is in them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from memreplay.snapshot.record import Record


class SegmentLine(Record, frozen=True, kw_only=True, tag_field="table", tag="segments"):
    """A segment of the final state."""

    segment: int
    """Its number."""
    device: int
    address: int
    """Where it begins."""
    total_size: int
    """Its bytes."""
    allocated_size: int
    """As in the file; 0 if that does not say."""
    active_size: int
    """As in the file; 0 if that does not say."""
    requested_size: int | UnsetType = UNSET
    """As in the file."""
    stream: int
    """Its stream."""
    segment_type: str | UnsetType = UNSET
    """`small` or `large`."""
    segment_pool_id: tuple[int, int] | UnsetType = UNSET
    """Its pool."""
    is_expandable: bool
    """As in the file; false if that does not say."""
    stack: int
    """Who asked for it, as in a line of `stacks` above; 0 is the stack of no frames."""


class BlockLine(Record, frozen=True, kw_only=True, tag_field="table", tag="blocks"):
    """A block of a segment."""

    block: int
    """Its number."""
    segment: int
    """The segment that it is in."""
    address: int
    """Where it begins."""
    address_given: bool | UnsetType = UNSET
    """False if it is worked out, as in files of PyTorch 2.0."""
    size: int
    """Its bytes, rounded."""
    requested_size: int | UnsetType = UNSET
    """What was asked for; stale for inactive blocks."""
    real_size: int | UnsetType = UNSET
    """The same, from the history that files of PyTorch 2.0 have."""
    state: Literal[
        "inactive", "active_allocated", "active_pending_free", "active_awaiting_free", "unknown"
    ]
    """Its state."""
    stack: int
    """Who allocated it, as in a line of `stacks` above; 0 is the stack of no frames."""


class TraceLine(Record, frozen=True, kw_only=True, tag_field="table", tag="traces"):
    """An entry of `device_traces`; its events follow."""

    trace: int
    """Its number."""
    device: int
    events: int
    """How many events the whole trace has."""
    first_event: int | UnsetType = UNSET
    """With `--from`, `--to` or `--device`: the number of the first event that follows."""
    events_read: int | UnsetType = UNSET
    """With these: how many follow."""


class EventLine(Record, frozen=True, kw_only=True, tag_field="table", tag="events"):
    """An event."""

    event: int
    """Its number, in the whole trace of its device."""
    device: int
    action: str | UnsetType = UNSET
    """What happened."""
    addr: int
    """Where; 0 if the file does not say."""
    size: int
    """Bytes: what was asked for, of `alloc` and of frees; 0 if the file does not say."""
    stream: int
    """Its stream."""
    time_us: int | UnsetType = UNSET
    """When."""
    stack: int
    """Whose it is, as in a line of `stacks` above; 0 is the stack of no frames."""
    compile_context: Any | UnsetType = UNSET
    """A text, or whatever JSON value the file holds."""
    user_metadata: Any | UnsetType = UNSET
    """A text, or whatever JSON value the file holds."""
    pool_id: tuple[int, int] | UnsetType = UNSET
    """Its pool."""
    device_free: int | UnsetType = UNSET
    """Of `oom`: bytes that the device had free."""


class StackLine(Record, frozen=True, kw_only=True, tag_field="table", tag="stacks"):
    """A stack, before the first row that names it."""

    stack: int
    """Its number, from 1; 0 is the stack of no frames, which is not written."""
    frames: tuple[int, ...]
    """Numbers of frames, innermost first."""


class FrameLine(Record, frozen=True, kw_only=True, tag_field="table", tag="frames"):
    """A frame, before the first stack that names it."""

    frame: int
    """Its number."""
    name: str
    """The function."""
    filename: str
    """The source file."""
    line: int
    """The line."""
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
    """Its number."""
    device: int
    """The device's index; -1 if there is none."""
    name: str | UnsetType = UNSET
    """What it is called."""
    stage: str | UnsetType = UNSET
    """`START` or `END`."""
    time_us: int | UnsetType = UNSET
    """When."""


class FileLine(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.export/1"):
    """The first line: the file that was read."""

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
    """Its size on disk; null for a stream."""
    stream_bytes: int
    """Its size after decompression."""
    container: str
    """How the bytes are wrapped, as in `memreplay summary`."""
    protocol: int
    """The pickle protocol; -1 for JSON."""
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    allocator_settings: Any | UnsetType = UNSET
    """As in the file."""
    trace_alloc_overflowed: Any | UnsetType = UNSET
    """As in the file."""
    trace_alloc_max_entries: Any | UnsetType = UNSET
    """As in the file."""
    memreplay: Any | UnsetType = UNSET
    """As in the file: what [memreplay's recorder](format.md#what-memreplay-adds) says."""
