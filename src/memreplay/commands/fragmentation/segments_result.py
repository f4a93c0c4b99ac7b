"""The result of `memreplay fragmentation --segments`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, Frame, Group, OfBackend
from memreplay.snapshot.record import Record


class SegmentChange(Record, frozen=True):
    """A segment event for display.

    `frame`: the frame that its stack is attributed to. `is_user`: whether that frame is user code
    rather than library code. `frames`: the full stack, innermost first.
    """

    event_index: int
    time_us: int | None
    action: str
    address: int
    bytes: int
    reserved_bytes: int
    stream: int
    pool: tuple[int, int] | None
    frame: Frame | None
    is_user: bool
    frames: tuple[Frame, ...]


class ChangeGroup(Record, frozen=True):
    """Segment events of one call site: those that reserved memory, or those that released it.

    Events without user code are grouped by stack.
    """

    bytes: int
    """Total bytes, positive."""
    count: int
    """Number of segment events."""
    least_bytes: int
    """Size of the smallest event."""
    most_bytes: int
    """Size of the largest event."""
    first_event: int
    """Index of the first event."""
    last_event: int
    """Index of the last event."""
    frame: Frame | None
    """The frame that the events' stacks are attributed to; null if no stack was recorded."""
    is_user: bool
    """Whether `frame` is user code rather than library code."""
    frames: tuple[Frame, ...]
    """Stack of the largest event (the first one if several are equally large), innermost frame
    first.
    """


class Changes(Record, frozen=True):
    """Segment events in trace order, as arrays of equal length."""

    event_index: list[int]
    """Indices in the device's trace."""
    time_us: list[int | None]
    """Times; null if unknown."""
    action: list[str]
    """`segment_alloc`, `segment_free`, `segment_map` or `segment_unmap`."""
    address: list[int]
    """Start addresses."""
    bytes: list[int]
    """Positive if memory was reserved, negative if it was released."""
    reserved_bytes: list[int]
    """Reserved bytes after the event."""
    stream: list[int]
    """Streams."""
    pool: list[tuple[int, int] | None]
    """The pool's id; null if unknown."""

    def __len__(self) -> int:
        return len(self.event_index)


class DeviceSegments(OfBackend, frozen=True, kw_only=True):
    """One device's segments over time."""

    text_only = ("largest",)

    device: int
    first_event: int
    events: int
    start_us: int | None
    start_segments: int
    """Number of segments before the first event. An expandable segment counts once per contiguous
    mapped range.
    """
    start_bytes: int
    """Reserved bytes before the first event."""
    peak_bytes: int
    """Peak of reserved bytes."""
    peak_event: int
    """The first event after which usage is at its peak; `first_event` - 1 is the start."""
    end_bytes: int
    """Reserved bytes after the last event."""
    actions: dict[str, int]
    """Number of segment events by action."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    at_peak: tuple[Group, ...]
    """The code that requested the memory reserved at the peak, by frame. `bytes` add up to
    `peak_bytes`; `count` is the number of segments and mapped ranges.
    """
    reserved_by: tuple[ChangeGroup, ...]
    """All segment events that reserved memory, grouped by user frame (without one, by stack); most
    bytes first.
    """
    released_by: tuple[ChangeGroup, ...]
    """All segment events that released memory, grouped in the same way."""
    changes: Changes
    """All segment events."""
    largest: tuple[SegmentChange, ...] = ()
    """The `--top` largest segment events, in trace order."""


class SegmentsReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.segments/1"
):
    """The result of `memreplay fragmentation --segments`."""

    file: str
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSegments, ...]

    def document(self) -> Document:
        from memreplay.commands.fragmentation.segments_text import segments_document

        return segments_document(self)
