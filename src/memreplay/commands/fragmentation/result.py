"""The results of `memreplay fragmentation`."""

from __future__ import annotations

from typing import Literal

from memreplay.analysis.groups.records import Kind, MapSums, Pin
from memreplay.snapshot.model import By, Exactness
from memreplay.snapshot.record import Record

Moment = Literal["asked", "oom", "reserved", "peak", "final"]


class UnusedPoint(Record, frozen=True):
    """What was reserved and not active at one moment, and why that moment is told.

    `name`: "start", "most_unused", "peak" (a peak of active bytes, the highest first), "reserved"
    (the most active while reserved bytes are at their peak, the first time), "oom" (the first
    request that failed) or "end".
    """

    name: str
    event_index: int
    time_us: int | None
    reserved_bytes: int
    active_bytes: int
    unused_bytes: int


class PoolShare(Record, frozen=True):
    """The segments of one pool, stream and kind; only requests of the same are served of them.

    `pool` is None where it is not known; `is_default` says whether it is the default one, which
    nobody has to release before empty_cache() gives its memory back.
    """

    pool: tuple[int, int] | None
    is_default: bool
    stream: int
    kind: Kind
    sums: MapSums


class MappedBlock(Record, frozen=True):
    """A block; `requested_bytes` is 0 of a free one. `label` is the group of who allocated it."""

    address: int
    bytes: int
    requested_bytes: int
    state: Literal["in_use", "pending", "free"]
    label: str


class MappedSegment(Record, frozen=True):
    """A segment, or a mapped range of an expandable one. `bar` is a picture in characters."""

    address: int
    pool: tuple[int, int] | None
    stream: int
    kind: Kind
    expandable: bool
    sums: MapSums
    bar: str
    blocks: tuple[MappedBlock, ...]


class DeviceFragmentation(Record, frozen=True):
    """One device: reserved and unused memory over time, and the block map at one moment.

    `points` tell of the course; `mean_unused_bytes` is weighted by time, None without times.
    The rest is after event `event_index`, and `moment` says why of that one: "asked" for, the first
    request that failed ("oom"), the peak of "reserved" bytes where it is reached in the recording,
    else the "peak" of active ones; "final" where there are no events. `returned_bytes` is what
    empty_cache() would give back for certain, `returned_pending_bytes` the part of it that is
    pending now; `private_bytes` is what it would also give back if all private pools had been
    released, which a snapshot does not say. `pinned_bytes` are free bytes that it would not give
    back: `pins` with the rest (`pins_rest_bytes`, `pins_rest_count`) add up to them. All free bytes
    are those of `returned_bytes`, of `private_bytes`, and `pinned_bytes`. `outside_bytes` are of
    live blocks that lie in no segment or in each other: 0 unless events were lost.
    """

    device: int
    events: int
    trace_events: int
    first_event: int
    start_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    points: tuple[UnusedPoint, ...]
    mean_unused_bytes: int | None
    moment: Moment
    event_index: int
    time_us: int | None
    sums: MapSums
    shares: tuple[PoolShare, ...]
    returned_bytes: int
    returned_pending_bytes: int
    private_bytes: int
    private_pending_bytes: int
    pinned_bytes: int
    pins: tuple[Pin, ...]
    pins_total: int
    pins_rest_bytes: int
    pins_rest_count: int
    outside_bytes: int
    outside_count: int
    map: tuple[MappedSegment, ...]
    map_total: int

    @property
    def slack_bytes(self) -> int:
        """What blocks have above what was asked for."""
        return self.sums.in_use_bytes + self.sums.pending_bytes - self.sums.requested_bytes

    @property
    def scattered_share(self) -> float:
        """1 - largest free block / all free bytes: 0.0 where all that is free is one block."""
        free = self.sums.free_bytes
        return 1 - self.sums.largest_free_bytes / free if free else 0.0


class FragmentationReport(Record, frozen=True):
    """What `memreplay fragmentation` shows. `asked` says whether a moment was asked for, `missing`
    why devices are left out that do not have it."""

    file: str
    by: By
    all_frames: bool
    asked: bool
    devices: tuple[DeviceFragmentation, ...]
    missing: tuple[str, ...] = ()
    truncated: bool = False
