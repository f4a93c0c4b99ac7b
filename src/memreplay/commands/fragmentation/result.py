"""The results of `memreplay fragmentation`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.records import Blocker, Kind, MapSums
from memreplay.render.document import Answer, Document
from memreplay.snapshot.backends import CUDA
from memreplay.snapshot.model import By, Exactness
from memreplay.snapshot.record import Record

Moment = Literal["asked", "oom", "reserved", "peak", "end"]
PointName = Literal["start", "most_unused", "peak", "reserved", "oom", "end"]


class UnusedPoint(Record, frozen=True):
    """What was reserved and not active at one moment, and why that moment is told."""

    name: PointName
    """`peak`: a peak of active bytes, of which there are up to three. `reserved`: where most is
    active while reserved bytes are at their peak, the first time. `oom`: the first request that
    failed. `most_unused`, `start` and `end` are what they say."""
    event_index: int
    """The event after which it is so; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time."""
    reserved_bytes: int
    """What is reserved then."""
    active_bytes: int
    """What is active then."""
    unused_bytes: int
    """The former less the latter: what is free then. What was never needed is the device's
    `unused_bytes`."""


class PoolShare(MapSums, frozen=True):
    """The segments of one pool, stream and kind: only requests of the same are served of them."""

    pool: tuple[int, int] | None
    """The pool's id, `[0, 0]` for the default; null if it is not known."""
    is_default: bool
    """Whether it is the default, which nobody has to release before `empty_cache()` gives its
    memory back."""
    stream: int
    """The stream."""
    kind: Kind
    """Which requests their blocks serve: up to 1 MiB, or larger."""


class MappedBlock(Record, frozen=True):
    """A block of a segment."""

    address: int
    """Where it begins."""
    bytes: int
    """Its size."""
    requested_bytes: int
    """What was asked for; 0 of a free one."""
    state: Literal["in_use", "pending", "free"]
    """What it is; `pending` if its free was requested and has not completed."""
    label: str
    """The place that allocated it; empty of a free one."""


class MappedPlace(MapSums, frozen=True):
    """What a MappedSegment begins with."""

    address: int
    """Where it begins."""
    pool: tuple[int, int] | None
    """The pool's id, `[0, 0]` for the default; null if it is not known."""
    stream: int
    """The stream."""
    kind: Kind
    """Which requests its blocks serve: up to 1 MiB, or larger."""
    expandable: bool
    """Whether it is a mapped range of an expandable segment."""


class MappedSegment(MappedPlace, frozen=True, kw_only=True):
    """A segment, or a mapped range of an expandable one."""

    text_only = ("bar",)

    blocks: tuple[MappedBlock, ...]
    """All of them, by address."""
    bar: str = ""
    """A picture of them in characters."""


class DeviceCourse(MapSums, frozen=True):
    """What a DeviceFragmentation begins with."""

    device: int
    first_event: int
    events: int
    trace_events: int
    start_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    points: tuple[UnusedPoint, ...]
    """How far reserved and active bytes were apart at telling moments, in the order of events."""
    unused_bytes: int
    """What was reserved and never needed: the peak of reserved bytes less that of active ones, 0 at
    least. `gate`, `report`, `simulate` and `fleet` call the same unused."""
    mean_unused_bytes: int | None
    """The mean of reserved less active bytes over time; null without times."""
    moment: Moment
    """Why of the moment that the rest is about: it was `asked` for (`--at`), the first request
    failed (`oom`), most was `reserved` (if its peak is reached in the recording), most was active
    (`peak`), or there are no events (`end`)."""
    event_index: int
    """The moment is after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time."""


class DeviceFragmentation(DeviceCourse, frozen=True, kw_only=True):
    """One device: reserved and unused memory over time, and its segments at one moment. All free
    bytes are `pinned_bytes`, and what `returned_bytes` and `private_bytes` have beside their
    pending parts."""

    text_only = ("backend",)

    backend: str = CUDA.name
    slack_bytes: int
    """What blocks have above what was asked for: `in_use_bytes` + `pending_bytes` -
    `requested_bytes`."""
    scattered_share: float
    """1 - `largest_free_bytes` / `free_bytes`: 0.0 if nothing is free, or all of it is one
    block."""
    returned_bytes: int
    """What `empty_cache()` would give back for certain."""
    returned_pending_bytes: int
    """The part of it that is pending now."""
    private_bytes: int
    """What it would also give back if all private pools had been released, which a snapshot does
    not say."""
    private_pending_bytes: int
    """The part of that which is pending now."""
    pinned_bytes: int
    outside_bytes: int
    """What live blocks hold that lie in no segment, or in each other: 0 unless events were lost."""
    outside_count: int
    """How many blocks these are."""
    pools: tuple[PoolShare, ...]
    """The segments by pool, stream and kind, the most free first."""
    pins: tuple[Blocker, ...]
    pins_total: int
    pins_rest_bytes: int
    pins_rest_count: int
    map: tuple[MappedSegment, ...]
    """With `--map` all segments, the most free first; else none."""
    map_total: int
    """How many segments there are at the moment."""


class FragmentationReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fragmentation/1"
):
    """What `memreplay fragmentation` found."""

    text_only = ("asked",)

    file: str
    by: By
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    missing: tuple[str, ...] = ()
    """Why devices are left out that do not have the moment."""
    devices: tuple[DeviceFragmentation, ...]
    asked: bool = False
    """Whether a moment was asked for."""

    def document(self) -> Document:
        from memreplay.commands.fragmentation.text import fragmentation_document

        return fragmentation_document(self)
