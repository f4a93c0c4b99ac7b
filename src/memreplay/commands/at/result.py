"""The results of `memreplay at`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.moments.records import DeviceStages
from memreplay.snapshot.model import By, Exactness, Filters, Frame, Group, MeasureName, Part, When
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.groups.tree import CallTree


class LiveAllocation(Record, frozen=True):
    """One allocation that is live at a moment.

    `alloc_event` is None for one of the baseline, and `alloc_us`, `age_us` are None there and where
    the file has no times; an age is between the latest times up to the two events, so that it is
    never below 0. `age_events` counts the events since. `free_event` is when the measure
    lets go of it (None: not in this recording), `free_us` its time, `freed_at` the frame that is
    put down to, where the free was recorded with a stack of its own. `stream` and `pool` are None
    where they are not known. `stack` is a number that those of one stack share, `label`, `frames`,
    `user` and `libraries` are as in Group.
    """

    address: int
    bytes: int
    alloc_event: int | None
    alloc_us: int | None
    age_events: int | None
    age_us: int | None
    free_event: int | None
    free_us: int | None
    freed_at: Frame | None
    stream: int | None
    pool: tuple[int, int] | None
    stack: int
    label: str
    frames: tuple[Frame, ...]
    user: tuple[int, ...]
    libraries: tuple[int, ...] = ()


class FoundAllocation(Record, frozen=True):
    """The allocation that an address was in: the `number`-th, from 1, of the `total` there."""

    allocation: LiveAllocation
    number: int
    total: int


class DeviceAt(Record, frozen=True):
    """What one device held after one event.

    `event_index` is that event, the one before `first_event` for the start; `time_us` its time, the
    first event's for the start; `start_us` the first time of the whole trace. The groups, with the
    rest, add up to `live_bytes` and `live_count`. `allocations` are the largest, where they were
    asked for; `found` is the one that the moment is of, where that is an address.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    when: When
    event_index: int
    time_us: int | None
    start_us: int | None
    live_bytes: int
    live_count: int
    peak_bytes: int
    first_event: int
    events: int
    trace_events: int
    groups: tuple[Group, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    trusted: bool
    reasons: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    allocations: tuple[LiveAllocation, ...] = ()
    tree: CallTree | None = None
    found: FoundAllocation | None = None


class AtReport(Record, frozen=True):
    """What `memreplay at` shows: an entry a device and moment.

    `stages`, where annotations were asked for, are those of each device. `listed` says whether
    allocations were asked for. `missing` holds, for devices that do not have
    a moment that others have, why.
    """

    file: str
    measure: MeasureName
    by: By
    all_frames: bool
    listed: bool
    devices: tuple[DeviceAt, ...]
    missing: tuple[str, ...] = ()
    stages: tuple[DeviceStages, ...] | None = None
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
