"""The results of `memreplay segments`."""

from __future__ import annotations

from dataclasses import dataclass

from memreplay.brief import Brief
from memreplay.model import Exactness, Frame, SegmentChanges


@dataclass(frozen=True, slots=True)
class SegmentChange(Brief):
    """One segment event, for people: `place` is the frame that its stack is put down to.

    `is_user` says whether that is the user's own code; `frames` is the whole stack, innermost
    first.
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


@dataclass(frozen=True, slots=True)
class DeviceSegments(Brief):
    """The segments of one device over time.

    `start_segments` counts segments, and mapped ranges without holes of expandable ones, before the
    first event. `actions` counts events by action. `largest` are the largest changes, in the order
    of the trace; `changes` are all of them, in columns.
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


@dataclass(frozen=True, slots=True)
class SegmentsReport(Brief):
    """What `memreplay segments` shows. `pools` spells the pool ids of the changes' columns."""

    file: str
    truncated: bool
    pools: dict[int, tuple[int, int]]
    actions: dict[int, str]
    devices: tuple[DeviceSegments, ...]
