"""The results of `memreplay timeline`."""

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
    """A group over the buckets."""

    text_only = ("group",)

    peak_bytes: int
    """The most that it ever holds."""
    peak_event: int
    """The first event after which it does."""
    bytes: list[int]
    """What it held after each of `max_event`."""
    group: Group
    """What it held at the device's peak."""


class Series(OfBackend, frozen=True, kw_only=True):
    """One measure of one device over its events. Arrays have a number for each bucket."""

    device: int
    measure: MeasureName
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    start_bytes: int
    """Before the first event."""
    peak_bytes: int
    """The highest of all."""
    peak_event: int
    """The first event after which the peak is reached."""
    peak_us: int | None
    """That event's time."""
    minimum_bytes: int
    """The lowest of all."""
    end_bytes: int
    """After the last event."""
    start_us: int | None
    """The first time."""
    stop_us: int | None
    """The latest time."""
    first_event: int
    events: int
    trace_events: int
    event_index: list[int]
    """A bucket's first event; if it has none, the last one before it."""
    bucket_events: list[int]
    """How many events it has."""
    time_us: list[int | None]
    """By time, when it begins; by event, the time of its first event."""
    min_bytes: list[int]
    """The lowest in it."""
    max_bytes: list[int]
    """The highest in it."""
    max_event: list[int]
    """The first event after which it is at its highest."""
    groups_total: int | UnsetType = UNSET
    """With `--by`: how many groups ever hold anything."""
    groups: tuple[Layer, ...] | UnsetType = UNSET
    """With `--by`: those of them that hold most, each at a peak of its own."""
    rest_bytes: tuple[int, ...] | UnsetType = UNSET
    """With `--by`: all else; with the groups it adds up to `max_bytes`."""

    @property
    def buckets(self) -> Buckets:
        """The arrays alone."""
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
        """The groups; none without `--by`."""
        return self.groups or ()

    @property
    def rest(self) -> tuple[int, ...]:
        """All else; nothing without `--by`."""
        return self.rest_bytes or ()


class Marks(Record, frozen=True):
    """What else happened on a device, and when."""

    device: int
    annotations: tuple[Span, ...]
    """The annotations that were there at any time of its events."""
    ooms: tuple[OutOfMemory, ...]
    """The events in which memory was out."""


class TimelineReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.timeline/1"
):
    """What `memreplay timeline` found."""

    text_only = ("idle",)

    file: str
    x: Axis
    """What the buckets cut into equal parts: by default time, unless the file has none or more than
    half of it holds under 5 % of the events."""
    idle: bool = False
    """Whether it is by event because most of the time is idle."""
    points: int
    """How many buckets were asked for; there may be fewer."""
    by: By | None
    """What groups are of; null without `--by`."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[Series, ...]
    """One for each device and measure, the devices in order."""
    marks: tuple[Marks, ...]
    """One for each device."""

    def document(self) -> Document:
        from memreplay.commands.timeline.text import timeline_document

        return timeline_document(self, terminal_width())
