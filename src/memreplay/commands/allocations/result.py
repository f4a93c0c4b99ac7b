"""The result of `memreplay allocations`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import AllocationsSort, By, Exactness, Group, MeasureName, OfBackend
from memreplay.snapshot.record import Record


class AllocationSums(Record, frozen=True, kw_only=True):
    """Sums over allocations; part of other records."""

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
    """A group's allocations. `bytes` and `count` are totals, and `share` is the share of all
    allocations' bytes.
    """

    pool: tuple[int, int] | UnsetType | None = UNSET
    """Pool; null if unknown. Only with `--by pool`."""
    stream: int | UnsetType | None = UNSET
    """Stream; null if unknown. Only with `--by stream`."""
    min_bytes: int | UnsetType = UNSET
    """Smallest size of the class. Only with `--by size`."""
    max_bytes: int | UnsetType = UNSET
    """Largest size of the class. Only with `--by size`."""
    mean_bytes: int | None
    """Mean size, rounded."""
    temporary_count: int
    """Number of allocations that were freed before more than `temporary_threshold` others were
    made.
    """
    temporary_bytes: int
    """Bytes of the temporary allocations."""
    live_count: int
    """Number of allocations that weren't freed in the selected events."""
    live_bytes: int
    """Bytes of the allocations that weren't freed."""
    mean_lifetime_events: int | None
    """Mean lifetime of freed allocations in events; null if none were freed."""
    mean_lifetime_us: int | None
    """Mean lifetime in microseconds; null if none were freed, or without times."""

    @property
    def sums(self) -> AllocationSums:
        """The sums without the group's other fields."""
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
    """The allocations whose sizes are between two powers of two."""

    min_bytes: int
    """Smallest size of the class."""
    max_bytes: int
    """Largest size of the class."""
    count: int
    """Number of allocations."""
    bytes: int
    """Total bytes of the allocations."""


class EventsClass(Record, frozen=True):
    """The allocations whose lifetimes in events are between two powers of ten."""

    min_events: int
    """Shortest lifetime of the class."""
    max_events: int
    """Longest lifetime of the class."""
    count: int
    """Number of allocations."""
    bytes: int
    """Total bytes of the allocations."""


class TimeClass(Record, frozen=True):
    """The allocations whose lifetimes in microseconds are between two powers of ten."""

    min_us: int
    """Shortest lifetime of the class."""
    max_us: int
    """Longest lifetime of the class."""
    count: int
    """Number of allocations."""
    bytes: int
    """Total bytes of the allocations."""


class DeviceAllocations(OfBackend, frozen=True, kw_only=True):
    """One device's allocations in the selected events, by one measure.

    The groups' `bytes` and `rest_bytes` add up to `allocated_bytes`. Sums may exceed 64 bits.
    """

    text_only = ("rest",)

    device: int
    measure: MeasureName
    exactness: Exactness
    allocation_count: int
    """Number of allocations in the selected events."""
    allocated_bytes: int
    """Bytes of all allocations."""
    frees: int
    """Number of allocations that were freed: `allocation_count` - `live_count`."""
    mean_bytes: int | None
    """Mean size, rounded; null without allocations."""
    temporary_count: int
    """Number of allocations that were freed before more than `temporary_threshold` others were
    made.
    """
    temporary_bytes: int
    """Bytes of the temporary allocations."""
    live_count: int
    """Number of allocations that weren't freed in the selected events."""
    live_bytes: int
    """Bytes of the allocations that weren't freed."""
    mean_lifetime_events: int | None
    """Mean lifetime of freed allocations in events; null if none were freed."""
    mean_lifetime_us: int | None
    """Mean lifetime in microseconds; null if none were freed, or without times."""
    min_bytes: int | None
    """Smallest size; null without allocations."""
    max_bytes: int | None
    """Largest size; null without allocations."""
    median_bytes: int | None
    """Median size, rounded up to a size that occurs; null without allocations."""
    median_lifetime_events: int | None
    """Median lifetime of freed allocations in events; null if none were freed."""
    median_lifetime_us: int | None
    """Median lifetime in microseconds; null if none were freed, or without times."""
    peak_bytes: int
    """Peak of the measure, including carried-over memory."""
    peak_ratio: float | None
    """`allocated_bytes` / `peak_bytes`; null if the peak is 0."""
    new_segment_count: int
    """Number of allocations for which a segment was allocated or mapped."""
    duration_us: int | None
    """Time from the first to the last event."""
    allocations_per_s: float | None
    """Allocations per second; null without distinct times."""
    bytes_per_s: float | None
    """Bytes per second; null without distinct times."""
    carried_over_count: int
    """Number of carried-over blocks, which only count in the peak."""
    carried_over_bytes: int
    """Bytes of the carried-over blocks."""
    carried_over_freed_count: int
    """Number of carried-over blocks freed in the selected events."""
    carried_over_freed_bytes: int
    """Bytes of the carried-over blocks that were freed."""
    first_event: int
    events: int
    trace_events: int
    trusted: bool
    reasons: tuple[str, ...]
    sizes: tuple[SizeClass, ...]
    """Nonempty size classes, whose counts add up to `allocation_count`."""
    lifetimes_events: tuple[EventsClass, ...]
    """Classes of lifetimes in events. They add up to `frees`."""
    lifetimes_us: tuple[TimeClass, ...] | None
    """Classes of lifetimes in microseconds; null without times. Together with `untimed_count`, they
    add up to `frees`.
    """
    untimed_count: int
    """Number of freed allocations whose lifetime in microseconds is unknown."""
    untimed_bytes: int
    """Bytes of the allocations in `untimed_count`."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[AllocationGroup, ...]
    """The first `--top` groups in the order of `sort`."""
    rest: AllocationSums
    """Sums over the allocations outside `groups`."""

    @property
    def total(self) -> AllocationSums:
        """The sums over all allocations."""
        return AllocationSums(
            count=self.allocation_count,
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
    """The result of `memreplay allocations`."""

    file: str
    measure: MeasureName
    by: By
    sort: AllocationsSort
    """Sort order of the groups."""
    temporary_threshold: int
    """An allocation is temporary if it's freed before more than this many others follow."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceAllocations, ...]

    def document(self) -> Document:
        from memreplay.commands.allocations.text import allocations_document

        return allocations_document(self)
