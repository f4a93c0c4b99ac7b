"""The results of `memreplay oom`."""

from __future__ import annotations

from typing import Literal

from memreplay.analysis.groups.records import Kind, Pin
from memreplay.snapshot.model import By, Exactness, Group, MeasureName, Part
from memreplay.snapshot.record import Record

Cause = Literal[
    "fragmentation",
    "other_stream",
    "other_pool",
    "split_limit",
    "pending_frees",
    "capacity",
    "other_processes",
    "process_limit",
]


class CachedPart(Record, frozen=True):
    """Free bytes that the allocator had, and why they did not serve the request.

    `name`: "too_small" (of its own pool, stream and kind, in blocks that are too small),
    "split_limit" (large enough, but max_split_size keeps it), "other_stream", "other_kind" (small
    blocks for a large request, or the other way round), "other_pool", "too_late" (it would serve
    now: its free completed while the request failed, and the allocator does not look again).
    """

    name: str
    bytes: int
    largest_bytes: int


class Remedy(Record, frozen=True):
    """What would have left bytes to use, how many at most, and whether they would have sufficed.

    `name`: "process_limit", "empty_cache", "expandable_segments", "max_split_size",
    "pending_frees", "one_stream", "private_pools", "other_processes" or "less_live".
    """

    name: str
    bytes: int
    enough: bool


class Oom(Record, frozen=True):
    """A request that failed, and the memory at that moment.

    `number` counts the device's from 1. `request_bytes` is rounded to a block's size,
    `needed_bytes` what was asked of the driver for it, or at most of an expandable segment.
    `device_free_bytes` is the driver's word, None where the event does not say. `cached_bytes` is
    what the allocator had free; `parts` add up to it. `pending_bytes` waited for streams, and is
    not among it. `outside_bytes` is what the card held besides: with `outside_known` all of it,
    else at least that much. `missing_bytes` is what the device had too little of for it. The groups
    (with `rest_bytes`) add up to `active_bytes`, the pins to `pinned_bytes`.
    """

    number: int
    event_index: int
    time_us: int | None
    request_bytes: int
    needed_bytes: int
    pool: tuple[int, int]
    pool_assumed: bool
    stream: int
    kind: Kind
    asked_by: Group
    device_free_bytes: int | None
    reserved_bytes: int
    active_bytes: int
    allocated_bytes: int
    requested_bytes: int
    outside_bytes: int
    outside_known: bool
    cause: Cause
    cached_bytes: int
    parts: tuple[CachedPart, ...]
    pending_bytes: int
    missing_bytes: int
    remedies: tuple[Remedy, ...]
    measure: MeasureName
    groups: tuple[Group, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    live_count: int
    parts_live: tuple[Part, ...]
    pinned_bytes: int
    pins: tuple[Pin, ...]
    pins_total: int
    pins_rest_bytes: int
    pins_rest_count: int


class LastState(Record, frozen=True):
    """The state at the end of a trace in which nothing failed: what failed may have failed there.

    `peak_event` is where most was active, `peak_bytes` how much. The groups (with `rest_bytes`) add
    up to `active_bytes`.
    """

    event_index: int
    time_us: int | None
    peak_event: int
    peak_bytes: int
    reserved_bytes: int
    active_bytes: int
    cached_bytes: int
    largest_free_bytes: int
    measure: MeasureName
    groups: tuple[Group, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    live_count: int
    parts: tuple[Part, ...]


class DeviceOoms(Record, frozen=True):
    """The out-of-memory events of one device. `total_bytes` is the card's memory: as the user says
    it (`total_known`), else the most that was seen of it. `ooms_total` counts them all, those that
    are not told too. `end` is the state at the end where no device has any."""

    device: int
    events: int
    trace_events: int
    first_event: int
    start_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    total_bytes: int | None
    total_known: bool
    ooms: tuple[Oom, ...]
    ooms_total: int
    end: LastState | None = None


class OomReport(Record, frozen=True):
    """What `memreplay oom` shows; `chosen` is the number of the one to tell in detail, 0: all."""

    file: str
    by: By
    all_frames: bool
    chosen: int
    devices: tuple[DeviceOoms, ...]
    truncated: bool = False
