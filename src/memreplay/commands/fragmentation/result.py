"""The result of `memreplay fragmentation`."""

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
    """Reserved and active memory at one notable moment."""

    name: PointName
    """`peak`: a peak of active bytes (up to three). `reserved`: the first moment with the most
    active bytes while reserved bytes are at their peak. `oom`: the first failed request.
    `most_unused`: the moment with the most unused bytes. `start`, `end`: the start and the end of
    the recording.
    """
    event_index: int
    """The moment is right after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event."""
    reserved_bytes: int
    """Reserved bytes."""
    active_bytes: int
    """Active bytes."""
    unused_bytes: int
    """`reserved_bytes` - `active_bytes`, the bytes that are free at this moment. The device's
    `unused_bytes` compares the two peaks instead.
    """


class PoolShare(MapSums, frozen=True):
    """The segments of one pool, stream and kind.

    These segments only serve requests of the same pool, stream and kind.
    """

    pool: tuple[int, int] | None
    """The pool's id, `[0, 0]` for the default; null if unknown."""
    is_default: bool
    """Whether it's the default pool. `empty_cache()` releases its memory without the program having
    to release the pool first.
    """
    stream: int
    """Stream."""
    kind: Kind
    """The kind of requests that the blocks serve: up to 1 MiB, or larger."""


class MappedBlock(Record, frozen=True):
    """A block of a segment."""

    address: int
    """Start address."""
    bytes: int
    """Size."""
    requested_bytes: int
    """Requested size; 0 for a free block."""
    state: Literal["in_use", "pending", "free"]
    """State; `pending` if a free was requested but hasn't completed."""
    label: str
    """Call site that allocated the block; empty for a free block."""


class MappedPlace(MapSums, frozen=True):
    """The first fields of a MappedSegment."""

    address: int
    """Start address."""
    pool: tuple[int, int] | None
    """The pool's id, `[0, 0]` for the default; null if unknown."""
    stream: int
    """Stream."""
    kind: Kind
    """The kind of requests that the blocks serve: up to 1 MiB, or larger."""
    expandable: bool
    """Whether this is a mapped range of an expandable segment."""


class MappedSegment(MappedPlace, frozen=True, kw_only=True):
    """A segment, or a mapped range of an expandable one."""

    text_only = ("bar",)

    blocks: tuple[MappedBlock, ...]
    """All blocks, in order of address."""
    bar: str = ""
    """A bar of characters that shows the blocks."""


class DeviceCourse(MapSums, frozen=True):
    """The first fields of a DeviceFragmentation."""

    device: int
    first_event: int
    events: int
    trace_events: int
    start_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    moments: tuple[UnusedPoint, ...]
    """Reserved and active bytes at notable moments, in event order."""
    unused_bytes: int
    """The peak of reserved bytes minus the peak of active bytes, at least 0. The two peaks may be
    at different events. `gate`, `report`, `simulate` and `fleet` use the same definition.
    """
    mean_unused_bytes: int | None
    """Mean of reserved minus active bytes over time; null without times."""
    moment_kind: Moment
    """Why this moment was chosen: it was `asked` for (`--at`), the first request failed (`oom`),
    reserved memory was at its peak (`reserved`, if that peak is in the recording), active memory
    was at its peak (`peak`), or only the final state is known (`end`).
    """
    event_index: int
    """The moment is right after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event."""


class DeviceFragmentation(DeviceCourse, frozen=True, kw_only=True):
    """One device: reserved and unused memory over time, and its segments at one moment.

    `pinned_bytes` and the parts of `returned_bytes` and `private_bytes` that aren't pending add up
    to the free bytes.
    """

    text_only = ("backend",)

    backend: str = CUDA.name
    slack_bytes: int
    """Bytes by which blocks are larger than requested: `in_use_bytes` + `pending_bytes` -
    `requested_bytes`.
    """
    scattered_share: float
    """1 - `largest_free_bytes` / `free_bytes`; 0.0 if no byte is free, or if all free bytes are in
    one block.
    """
    returned_bytes: int
    """Bytes that `empty_cache()` would certainly release."""
    returned_pending_bytes: int
    """The part of `returned_bytes` that is pending at the moment."""
    private_bytes: int
    """Bytes that `empty_cache()` would also release if the program had released all private pools,
    which a snapshot doesn't show.
    """
    private_pending_bytes: int
    """The part of `private_bytes` that is pending at the moment."""
    pinned_bytes: int
    outside_bytes: int
    """Bytes of live blocks that are outside segments or overlap others; 0 unless events were lost.
    """
    outside_count: int
    """Number of the blocks in `outside_bytes`."""
    pools: tuple[PoolShare, ...]
    """Segments grouped by pool, stream and kind, most free memory first."""
    pins: tuple[Blocker, ...]
    pins_total: int
    pins_rest_bytes: int
    pins_rest_count: int
    map: tuple[MappedSegment, ...]
    """With `--map`: all segments, most free memory first; else empty."""
    map_total: int
    """Number of segments at the moment."""


class FragmentationReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fragmentation/1"
):
    """The result of `memreplay fragmentation`."""

    text_only = ("asked",)

    file: str
    by: By
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    missing: tuple[str, ...] = ()
    """The reasons why devices without the moment are left out."""
    devices: tuple[DeviceFragmentation, ...]
    asked: bool = False
    """Whether a moment was given."""

    def document(self) -> Document:
        from memreplay.commands.fragmentation.text import fragmentation_document

        return fragmentation_document(self)
