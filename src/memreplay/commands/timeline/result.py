"""The result of `memreplay timeline`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.moments.records import OutOfMemory
from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import (
    Buckets,
    By,
    Coded,
    Exactness,
    Group,
    MeasureName,
    OfBackend,
    Span,
)
from memreplay.snapshot.record import Record
from memreplay.width import terminal_width

Axis = Literal["event", "time"]


class Layer(Coded, frozen=True, kw_only=True):
    """One group's memory in each bucket."""

    text_only = ("group",)

    peak_bytes: int
    """The group's own peak."""
    peak_event: int
    """The first event after which the group is at its peak."""
    bytes: list[int]
    """The group's bytes after each `max_event`."""
    group: Group
    """The group at the moment of the device's peak."""


class Series(OfBackend, frozen=True, kw_only=True):
    """One measure of one device over its events. Arrays have one number per bucket."""

    device: int
    measure: MeasureName
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    start_bytes: int
    """Usage before the first event."""
    peak_bytes: int
    """The highest usage."""
    peak_event: int
    """The first event after which usage is at its peak."""
    peak_us: int | None
    """Time of that event."""
    lowest_bytes: int
    """The lowest usage."""
    end_bytes: int
    """Usage after the last event."""
    start_us: int | None
    """First time."""
    end_us: int | None
    """Last time."""
    first_event: int
    events: int
    trace_events: int
    event_index: list[int]
    """First event of each bucket; for an empty bucket, the last event before it."""
    bucket_events: list[int]
    """Number of events in each bucket."""
    time_us: list[int | None]
    """Start of each bucket if `x` is "time"; otherwise, the time of its first event."""
    min_bytes: list[int]
    """Lowest usage in each bucket."""
    max_bytes: list[int]
    """Highest usage in each bucket."""
    max_event: list[int]
    """The first event after which usage is at the bucket's maximum."""
    outside_bytes: list[int | None] | UnsetType = UNSET
    """Memory [outside PyTorch's allocator](outside.md) at each bucket's sample with the least
    free memory, or else at the last one before; null before the first. Absent if memreplay's
    recorder didn't measure it.
    """
    other_bytes: list[int | None] | UnsetType = UNSET
    """Memory of other processes at these samples; null if unknown. `outside_bytes` then includes
    it.
    """
    groups_total: int | UnsetType = UNSET
    """With `--by`: number of groups that ever hold memory."""
    groups: tuple[Layer, ...] | UnsetType = UNSET
    """With `--by`: the groups with the highest peaks."""
    rest_bytes: tuple[int, ...] | UnsetType = UNSET
    """With `--by`: all other groups. `groups` and `rest` add up to `max_bytes`."""

    @property
    def buckets(self) -> Buckets:
        """The arrays that have one number per bucket."""
        return Buckets(
            event_index=self.event_index,
            events=self.bucket_events,
            time_us=self.time_us,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            max_event=self.max_event,
        )

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of groups; empty without `--by`."""
        return self.groups or ()

    @property
    def rest(self) -> tuple[int, ...]:
        """The layer of all other groups; empty without `--by`."""
        return self.rest_bytes or ()


class Marks(Record, frozen=True):
    """A device's annotations and failed requests."""

    device: int
    annotations: tuple[Span, ...]
    """The annotations that overlap the device's events."""
    ooms: tuple[OutOfMemory, ...]
    """The failed requests."""


class TimelineReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.timeline/1"
):
    """The result of `memreplay timeline`."""

    text_only = ("idle",)

    file: str
    x: Axis
    """The axis that buckets divide into equal parts. By default, it's time, unless the file has no
    times or more than half of the recording's duration contains under 5% of the events.
    """
    idle: bool = False
    """Whether events are used because the program was idle most of the time."""
    points: int
    """The requested number of buckets; there may be fewer."""
    by: By | None
    """The key to group by; null without `--by`."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[Series, ...]
    """One entry for each device and measure, in device order."""
    marks: tuple[Marks, ...]
    """One entry per device."""

    def document(self) -> Document:
        from memreplay.commands.timeline.text import timeline_document

        return timeline_document(self, terminal_width())
