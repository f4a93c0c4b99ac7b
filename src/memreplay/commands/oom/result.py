"""The results of `memreplay oom`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.asking import Asker
from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.analysis.groups.records import Blocker, Kind
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, Exactness, Group, MeasureName, OfBackend, Part, Parted
from memreplay.snapshot.record import Record

Cause = Literal[
    "request_too_large",
    "fragmentation",
    "other_stream",
    "other_pool",
    "split_limit",
    "pending_frees",
    "capacity",
    "other_processes",
    "process_limit",
]
CachedName = Literal[
    "too_small", "split_limit", "other_stream", "other_kind", "other_pool", "too_late"
]
RemedyName = Literal[
    "process_limit",
    "empty_cache",
    "expandable_segments",
    "max_split_size",
    "pending_frees",
    "one_stream",
    "private_pools",
    "other_processes",
    "no_grad",
    "less_live",
]


class CachedPart(Record, frozen=True):
    """Free bytes that the allocator had, and why they did not serve the request."""

    name: CachedName
    """`too_small`: of the right pool, stream and kind, in blocks that are too small. `split_limit`:
    large enough, but max_split_size keeps it. `other_stream`, `other_pool`: of another one.
    `other_kind`: small blocks for a large request, or the other way round. `too_late`: it would
    serve now; its free completed while the request failed, and the allocator does not look
    again."""
    bytes: int
    """How many."""
    largest_bytes: int
    """The largest block of them."""


class Remedy(Record, frozen=True):
    """What would have left memory to use."""

    name: RemedyName
    """[What would have helped](oom.md#what-would-have-helped)."""
    bytes: int
    """What it would have given, at most; of `less_live` what the largest group holds."""
    enough: bool
    """Whether that would have been enough: as a simulation says, or else, by the bytes alone,
    whether it may have been."""
    simulated: bool = False
    """Whether a [simulation](simulate.md) decided that."""
    settings: str = ""
    """The allocator settings with which the simulation serves the request; empty if it does not,
    and if one is to be dropped."""
    fails_next: int | None = None
    """The next event whose request fails in that simulation; null if none does until the end of the
    recording. What the program asks for after it, the file does not say."""


class Oom(OfBackend, Parted, frozen=True, kw_only=True):
    """A request that failed, and the memory at that moment. The `bytes` of the groups and
    `rest_bytes` add up to `active_bytes`."""

    number: int
    """Which one of the device it is, from 1."""
    event_index: int
    """Its event."""
    time_us: int | None
    """That event's time."""
    cause: Cause
    """[Why it failed](oom.md#causes)."""
    request_bytes: int
    """What was asked for, rounded to a block's size."""
    needed_bytes: int
    """What the driver was asked for, for it; of an expandable segment at most."""
    missing_bytes: int
    """`needed_bytes` less what the driver had, 0 at least."""
    pool: tuple[int, int]
    """The pool that was asked: `[0, 0]` is the default."""
    pool_assumed: bool
    """Whether the event does not say the pool, and the default one is taken."""
    stream: int
    """The stream."""
    kind: Kind
    """Which blocks serve the request: those for up to 1 MiB, or for more."""
    asked_by: Asker
    """Who asked."""
    device_free_bytes: int | None
    """What the driver had free; null if the event does not say."""
    outside_bytes: int
    """What the card held besides: all of it, or at least so much."""
    outside_known: bool
    """Whether it is all of it (`--total-memory`)."""
    reserved_bytes: int
    """What was reserved then."""
    active_bytes: int
    """What was active then."""
    allocated_bytes: int
    """What was allocated then."""
    requested_bytes: int
    """What was requested then."""
    pending_bytes: int
    """What was active and waited for a stream."""
    cached_bytes: int
    """What the allocator had free."""
    cached: tuple[CachedPart, ...]
    """These bytes by why they did not serve, the most first; they add up."""
    remedies: tuple[Remedy, ...]
    """What would have helped, in the order in which one would try it."""
    after_events: int
    """How many events were recorded after it."""
    after_allocations: int
    """How many of them allocate: none if the program ended with the error, many if it caught it."""
    more_bytes: int | None
    """How much more memory serves this request, as simulated: `missing_bytes`, or what the whole
    recording takes if it fails with that, too; null if a simulation can't tell."""
    to_end_bytes: int | None
    """How much more memory the recording takes to its end without a failure, as simulated: it is
    `missing_bytes` at least; null if a simulation can't tell."""
    state_bytes: int
    """In the first step of an optimizer, what it still has to allocate, this request included: an
    estimate by the gradients; else 0."""
    live_count: int
    """How many blocks were active."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    categories: tuple[CategoryBytes, ...]
    """The categories of what was active, the largest first."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    pinned_bytes: int
    pins: tuple[Blocker, ...]
    pins_total: int
    pins_rest_bytes: int
    pins_rest_count: int
    pools: tuple[Part, ...] | UnsetType = UNSET
    streams: tuple[Part, ...] | UnsetType = UNSET

    @property
    def measure(self) -> MeasureName:
        """What groups are of."""
        return "active"

    @property
    def step_missing_bytes(self) -> int:
        """How much more an optimizer's first step takes to its end, as `state_bytes` estimates it;
        0 if it is no such step."""
        if not self.state_bytes:
            return 0
        room = self.reserved_bytes + (self.device_free_bytes or 0)
        return max(self.missing_bytes, self.active_bytes + self.state_bytes - room)


class LastState(Record, Parted, frozen=True, kw_only=True):
    """The state at the end of a trace in which nothing failed: where the program dumped because of
    an error, it most likely failed there. The `bytes` of the groups and `rest_bytes` add up to
    `active_bytes`."""

    event_index: int
    """The last event; `first_event` - 1 if there is none."""
    time_us: int | None
    """That event's time."""
    peak_event: int | None
    """The first event after which most is active; null if only the final state is known."""
    peak_bytes: int | None
    """How much that is; null if only the final state is known."""
    reserved_bytes: int
    """What is reserved at the end."""
    active_bytes: int
    """What is active then."""
    cached_bytes: int
    """What is free of reserved memory."""
    largest_free_bytes: int
    """The largest free block."""
    live_count: int
    """How many blocks are active."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    categories: tuple[CategoryBytes, ...]
    """The categories of what was active, the largest first."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    pools: tuple[Part, ...] | UnsetType = UNSET
    streams: tuple[Part, ...] | UnsetType = UNSET

    @property
    def measure(self) -> MeasureName:
        """What groups are of."""
        return "active"


class DeviceOoms(OfBackend, frozen=True, kw_only=True):
    """The out-of-memory events of one device."""

    device: int
    first_event: int
    events: int
    trace_events: int
    start_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    total_bytes: int | None
    total_known: bool
    ooms_total: int
    """How many out-of-memory events there are."""
    end: LastState | None = None
    """If no device has any, the state at the end; else null."""
    ooms: tuple[Oom, ...]
    """All of them, whatever `--oom` says."""


class OomReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.oom/1"):
    """What `memreplay oom` found."""

    text_only = ("chosen",)

    file: str
    by: By
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceOoms, ...]
    chosen: int = 1
    """The number of the event to tell in detail; 0 for all."""

    def document(self) -> Document:
        from memreplay.commands.oom.text import oom_document

        return oom_document(self)
