"""The results of `memreplay allocations`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import AllocationsSort, By, Exactness, Group, MeasureName, OfBackend
from memreplay.snapshot.record import Record


class AllocationSums(Record, frozen=True, kw_only=True):
    """Allocations that were made over the events, summed up: part of what other records say."""

    count: int
    bytes: int
    mean_bytes: int | None
    temporary_count: int
    temporary_bytes: int
    live_count: int
    live_bytes: int
    mean_lifetime_events: int | None
    mean_lifetime_us: int | None


class AllocationGroup(Group, frozen=True, kw_only=True):
    """The allocations of one group: `bytes` and `count` are what was allocated, `share` of all."""

    pool: tuple[int, int] | UnsetType | None = UNSET
    """By `pool` alone: the pool; null if it is not known."""
    stream: int | UnsetType | None = UNSET
    """By `stream` alone: the stream; null if it is not known."""
    min_bytes: int | UnsetType = UNSET
    """By `size` alone: the least size of the class."""
    max_bytes: int | UnsetType = UNSET
    """By `size` alone: the largest size of the class."""
    mean_bytes: int | None
    """The mean size, rounded."""
    temporary_count: int
    """Those that were freed before more than `temporary_threshold` others were made."""
    temporary_bytes: int
    """Their bytes."""
    live_count: int
    """Those that were not freed in what was read."""
    live_bytes: int
    """Their bytes."""
    mean_lifetime_events: int | None
    """The mean lifetime of those that were freed, in events; null of none."""
    mean_lifetime_us: int | None
    """The same in microseconds; null also if no time is known."""

    @property
    def sums(self) -> AllocationSums:
        """The numbers alone."""
        return AllocationSums(
            count=self.count,
            bytes=self.bytes,
            mean_bytes=self.mean_bytes,
            temporary_count=self.temporary_count,
            temporary_bytes=self.temporary_bytes,
            live_count=self.live_count,
            live_bytes=self.live_bytes,
            mean_lifetime_events=self.mean_lifetime_events,
            mean_lifetime_us=self.mean_lifetime_us,
        )


class SizeClass(Record, frozen=True):
    """The allocations of some sizes: of one power of two."""

    min_bytes: int
    """The least size of the class."""
    max_bytes: int
    """The largest size of the class."""
    count: int
    """How many."""
    bytes: int
    """Their bytes."""


class EventsClass(Record, frozen=True):
    """The allocations that lived for so many events: of one power of ten."""

    min_events: int
    """The shortest lifetime of the class."""
    max_events: int
    """The longest lifetime of the class."""
    count: int
    """How many."""
    bytes: int
    """Their bytes."""


class TimeClass(Record, frozen=True):
    """The allocations that lived for so long: of one power of ten."""

    min_us: int
    """The shortest lifetime of the class."""
    max_us: int
    """The longest lifetime of the class."""
    count: int
    """How many."""
    bytes: int
    """Their bytes."""


class DeviceAllocations(OfBackend, frozen=True, kw_only=True):
    """What one device allocated over the events that were read, by one measure. The `bytes` of the
    groups and `rest_bytes` add up to `allocated_bytes`. Sums are as many digits as they need."""

    text_only = ("rest",)

    device: int
    measure: MeasureName
    exactness: Exactness
    allocations: int
    """Allocations made in what was read."""
    allocated_bytes: int
    """Their bytes."""
    frees: int
    """Those of them that were freed in it: `allocations` - `live_count`."""
    mean_bytes: int | None
    """The mean size, rounded; null of none."""
    temporary_count: int
    """Those that were freed before more than `temporary_threshold` others were made."""
    temporary_bytes: int
    """Their bytes."""
    live_count: int
    """Those that were not freed in what was read."""
    live_bytes: int
    """Their bytes."""
    mean_lifetime_events: int | None
    """The mean lifetime of those that were freed, in events; null of none."""
    mean_lifetime_us: int | None
    """The same in microseconds; null also if no time is known."""
    min_bytes: int | None
    """The least size; null of none."""
    max_bytes: int | None
    """The largest size; null of none."""
    median_bytes: int | None
    """The least size that at least half do not exceed; null of none."""
    median_lifetime_events: int | None
    """The median lifetime of those that were freed, in events; null of none."""
    median_lifetime_us: int | None
    """The same in microseconds; null also if no time is known."""
    peak_bytes: int
    """The highest usage, with what was carried over."""
    peak_ratio: float | None
    """`allocated_bytes` over that; null if it is 0."""
    new_segment_count: int
    """Allocations for which a segment was allocated or mapped."""
    duration_us: int | None
    """From the first time to the last."""
    allocations_per_s: float | None
    """Allocations a second; null if there are no times, or all are one."""
    bytes_per_s: float | None
    """Their bytes a second; null if there are no times, or all are one."""
    carried_over_count: int
    """Blocks from before what was read: in none of the numbers but the peak's."""
    carried_over_bytes: int
    """Their bytes."""
    carried_over_freed_count: int
    """Those of them that were freed in it."""
    carried_over_freed_bytes: int
    """Their bytes."""
    first_event: int
    events: int
    trace_events: int
    trusted: bool
    reasons: tuple[str, ...]
    sizes: tuple[SizeClass, ...]
    """Classes of sizes, those that there are; they add up to `allocations`."""
    lifetimes_events: tuple[EventsClass, ...]
    """Classes of lifetimes in events; they add up to `frees`."""
    lifetimes_us: tuple[TimeClass, ...] | None
    """Classes of lifetimes in microseconds; with `untimed_count` they add up to `frees`; null if
    there are no times."""
    untimed_count: int
    """Those that were freed and whose lifetime in microseconds is not known."""
    untimed_bytes: int
    """Their bytes."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[AllocationGroup, ...]
    """The first in the order of `sort`, as many as `--top` says."""
    rest: AllocationSums
    """What is in none of the groups."""

    @property
    def total(self) -> AllocationSums:
        """The sums of all."""
        return AllocationSums(
            count=self.allocations,
            bytes=self.allocated_bytes,
            mean_bytes=self.mean_bytes,
            temporary_count=self.temporary_count,
            temporary_bytes=self.temporary_bytes,
            live_count=self.live_count,
            live_bytes=self.live_bytes,
            mean_lifetime_events=self.mean_lifetime_events,
            mean_lifetime_us=self.mean_lifetime_us,
        )


class AllocationsReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.allocations/1"
):
    """What `memreplay allocations` found."""

    file: str
    measure: MeasureName
    by: By
    sort: AllocationsSort
    """What the groups are sorted by."""
    temporary_threshold: int
    """How many others may be made while a temporary allocation lives."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceAllocations, ...]

    def document(self) -> Document:
        from memreplay.commands.allocations.text import allocations_document

        return allocations_document(self)
