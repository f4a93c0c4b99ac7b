"""The results of `memreplay segments`."""

from __future__ import annotations

from memreplay.snapshot.model import Exactness, Frame, Group, SegmentChanges
from memreplay.snapshot.record import Record


class SegmentChange(Record, frozen=True):
    """One segment event, for people: `place` is the frame that its stack is put down to.

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
    place: Frame | None
    is_user: bool
    frames: tuple[Frame, ...]


class ChangeGroup(Record, frozen=True):
    """Segment events of one place that all took memory, or all gave it back: `bytes` in all, above
    0, from `least_bytes` to `most_bytes` each. `place` is the frame that their stacks are put down
    to, `frames` the stack of the first of the largest; without code of the user's they have one
    stack.
    """

    place: Frame | None
    is_user: bool
    frames: tuple[Frame, ...]
    bytes: int
    count: int
    least_bytes: int
    most_bytes: int
    first_event: int
    last_event: int


class DeviceSegments(Record, frozen=True):
    """The segments of one device over time.

    `start_segments` counts segments, and mapped ranges without holes of expandable ones, before the
    first event. `actions` counts events by action. `largest` are the largest changes, in the order
    of the trace; `changes` are all of them, in columns. `taken` and `given_back` are all of them in
    groups, those with the most bytes first; `at_peak` is who asked for what is reserved at the
    peak, all of it.
    """

    device: int
    first_event: int
    events: int
    start_us: int | None
    start_segments: int
    start_bytes: int
    peak_bytes: int
    event_index: int
    final_bytes: int
    actions: dict[str, int]
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    largest: tuple[SegmentChange, ...]
    changes: SegmentChanges
    taken: tuple[ChangeGroup, ...]
    given_back: tuple[ChangeGroup, ...]
    at_peak: tuple[Group, ...]


class SegmentsReport(Record, frozen=True):
    """What `memreplay segments` shows. `pools` spells the pool ids of the changes' columns."""

    file: str
    truncated: bool
    pools: dict[int, tuple[int, int]]
    actions: dict[int, str]
    devices: tuple[DeviceSegments, ...]
