"""The results of `memreplay timeline`."""

from __future__ import annotations

from typing import Literal

from memreplay.analysis.moments.records import OutOfMemory
from memreplay.snapshot.model import Buckets, By, Exactness, Filters, Group, MeasureName, Span
from memreplay.snapshot.record import Record

Axis = Literal["event", "time"]


class Layer(Record, frozen=True):
    """A group's bytes over the buckets, each after the event of the bucket's maximum.

    `group` says what it is, and what it held at the device's peak; `peak_bytes` is the most that it
    ever held, and `event_index` the first event after which it did.
    """

    group: Group
    bytes: list[int]
    peak_bytes: int
    event_index: int


class Series(Record, frozen=True):
    """One measure of one device over its events.

    `event_index` is the first event after which the peak is reached, `time_us` its time. `start_us`
    is the time of the first event that has one, `stop_us` the latest; None where there are none.
    `layers` and `rest_bytes` add up to `buckets.max_bytes`; `groups_total` is how many groups ever
    hold anything, of which `layers` are those that hold most, each at a peak of its own.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    start_bytes: int
    peak_bytes: int
    event_index: int
    time_us: int | None
    minimum_bytes: int
    final_bytes: int
    start_us: int | None
    stop_us: int | None
    first_event: int
    events: int
    trace_events: int
    buckets: Buckets
    layers: tuple[Layer, ...] = ()
    rest_bytes: tuple[int, ...] = ()
    groups_total: int = 0


class Marks(Record, frozen=True):
    """What else happened on a device, and when."""

    device: int
    annotations: tuple[Span, ...]
    ooms: tuple[OutOfMemory, ...]


class TimelineReport(Record, frozen=True):
    """What `memreplay timeline` shows: an entry a device and measure, the devices in order.

    `x` is what the buckets cut; `points` how many were asked for. `by` is None where nothing is
    stacked. `marks` has an entry a device.
    """

    file: str
    x: Axis
    points: int
    by: By | None
    devices: tuple[Series, ...]
    marks: tuple[Marks, ...]
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
