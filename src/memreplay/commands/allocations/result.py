"""The results of `memreplay allocations`."""

from __future__ import annotations

from memreplay.snapshot.model import AllocationsSort, By, Exactness, Filters, Group, MeasureName
from memreplay.snapshot.record import Record


class AllocationSums(Record, frozen=True):
    """Allocations that were made over the events, summed up.

    A temporary one ended before more than the threshold of others were made on its device; a live
    one did not end. Mean lifetimes are of those that ended (in microseconds: whose times are known,
    too). Means are rounded, and None of nothing.
    """

    count: int
    bytes: int
    mean_bytes: int | None
    temporary_count: int
    temporary_bytes: int
    live_count: int
    live_bytes: int
    mean_lifetime_events: int | None
    mean_lifetime_us: int | None


class AllocationGroup(Record, frozen=True):
    """The allocations of one group.

    `group` says what they share, and has their count, their bytes and the share of these in all.
    `pool`, `stream` and `sizes` (the least and the most of a size class) are None where that alone
    is not what they are grouped by; the first two also where it is not known.
    """

    group: Group
    sums: AllocationSums
    pool: tuple[int, int] | None = None
    stream: int | None = None
    sizes: tuple[int, int] | None = None


class ValueClass(Record, frozen=True):
    """The allocations whose size, or lifetime, is from `least` to `most`."""

    least: int
    most: int
    count: int
    bytes: int


class DeviceAllocations(Record, frozen=True):
    """What one device allocated over the events that were read, by one measure.

    The groups and `rest` add up to `total`, and so do `sizes`; `lifetimes_events` and what is live
    do; `lifetimes_us`, what ended without a known time (`untimed_*`) and what is live do. Classes
    are those that there are. `lifetimes_us` is None where the file has no times. `grown_count` are
    the allocations for which the allocator got a segment or mapped more of one. Medians are the
    least value that at least half do not exceed, None of nothing. `duration_us` is from the first
    to the last time. The baseline was not allocated in the recording: it counts in its own numbers
    alone. `peak_bytes` is the highest usage, the baseline in it.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    trace_events: int
    duration_us: int | None
    total: AllocationSums
    min_bytes: int | None
    max_bytes: int | None
    median_bytes: int | None
    median_lifetime_events: int | None
    median_lifetime_us: int | None
    sizes: tuple[ValueClass, ...]
    lifetimes_events: tuple[ValueClass, ...]
    lifetimes_us: tuple[ValueClass, ...] | None
    untimed_count: int
    untimed_bytes: int
    grown_count: int
    peak_bytes: int
    baseline_count: int
    baseline_bytes: int
    baseline_freed_count: int
    baseline_freed_bytes: int
    groups: tuple[AllocationGroup, ...]
    groups_total: int
    rest: AllocationSums
    trusted: bool
    reasons: tuple[str, ...]


class AllocationsReport(Record, frozen=True):
    """What `memreplay allocations` shows: one entry a device that has events or segments.

    `threshold` is how many others may be made while an allocation lives that counts as temporary.
    """

    file: str
    measure: MeasureName
    by: By
    sort: AllocationsSort
    threshold: int
    all_frames: bool
    devices: tuple[DeviceAllocations, ...]
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
