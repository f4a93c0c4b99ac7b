"""The results of `memreplay fragmentation --segments`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, Frame, Group, OfBackend
from memreplay.snapshot.record import Record


class SegmentChange(Record, frozen=True):
    """One segment event, for people: `frame` is the one that its stack is put down to.

    `is_user` says whether that is code: the user's own, or a library's in a stack without any;
    `frames` is the whole stack, innermost first.
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
    """Segment events of one place that all took memory, or all gave it back; without code of the
    user's, those of one stack."""

    bytes: int
    """How much in all, above 0."""
    count: int
    """How many segment events."""
    least_bytes: int
    """The smallest of them."""
    most_bytes: int
    """The largest of them."""
    first_event: int
    """The index of the first."""
    last_event: int
    """The index of the last."""
    frame: Frame | None
    """The frame that their stacks are put down to; null if none was recorded."""
    is_user: bool
    """Whether that is the user's own code; of stacks without any, that of a library."""
    frames: tuple[Frame, ...]
    """The stack of the first of the largest, innermost first."""


class Changes(Record, frozen=True):
    """Segment events in the order of the trace, as arrays of one length."""

    event_index: list[int]
    """Their indices in the device's trace."""
    time_us: list[int | None]
    """When they were; null if there is no time."""
    action: list[str]
    """`segment_alloc`, `segment_free`, `segment_map` or `segment_unmap`."""
    address: list[int]
    """The first address."""
    bytes: list[int]
    """Above 0 where memory was reserved, below 0 where it was given back."""
    reserved_bytes: list[int]
    """What is reserved afterwards."""
    stream: list[int]
    """The stream."""
    pool: list[tuple[int, int] | None]
    """The pool's id; null if it is not known."""

    def __len__(self) -> int:
        return len(self.event_index)


class DeviceSegments(OfBackend, frozen=True, kw_only=True):
    """The segments of one device over time."""

    text_only = ("largest",)

    device: int
    first_event: int
    events: int
    start_us: int | None
    start_segments: int
    """How many segments, and mapped ranges without holes of expandable ones, there are before the
    first event."""
    start_bytes: int
    """What is reserved before the first event."""
    peak_bytes: int
    """The most that is ever reserved."""
    event_index: int
    """The first event after which it is; `first_event` - 1 is the start."""
    end_bytes: int
    """What is reserved after the last event."""
    actions: dict[str, int]
    """How many segment events there are, by action."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    at_peak: tuple[Group, ...]
    """Who asked for what is reserved at the peak, by frame; they add up to `peak_bytes`. `count` is
    of segments and mapped ranges."""
    taken: tuple[ChangeGroup, ...]
    """All segment events that took memory, by the user's frame, or by stack if it has none; the
    most bytes first."""
    given_back: tuple[ChangeGroup, ...]
    """Those that gave it back, in the same way."""
    changes: Changes
    """All segment events."""
    largest: tuple[SegmentChange, ...] = ()
    """The largest of them, as many as `--top` says, in the order of the trace."""


class SegmentsReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.segments/1"
):
    """What `memreplay fragmentation --segments` found."""

    file: str
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSegments, ...]

    def document(self) -> Document:
        from memreplay.commands.fragmentation.segments_text import segments_document

        return segments_document(self)
