"""The result of `memreplay oom`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.analysis.groups.records import Blocker, Kind
from memreplay.analysis.groups.requesting import Asker
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, Exactness, Group, MeasureName, OfBackend, Part, Parted
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_holders import RecordedHolders
from memreplay.snapshot.recorded_memory import CardUse

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
    "inference_mode",
    "less_live",
]


class CachedPart(Record, frozen=True):
    """Free bytes in the allocator's cache, and why they didn't serve the request."""

    name: CachedName
    """`too_small`: in the right pool, stream and kind, but in blocks that are too small.
    `split_limit`: large enough, but max_split_size forbids splitting them. `other_stream`,
    `other_pool`: in another stream or pool. `other_kind`: small blocks for a large request, or the
    reverse. `too_late`: freed while the request was failing, after the allocator had last looked.
    """
    bytes: int
    """Total size of the free bytes."""
    largest_bytes: int
    """The largest of the blocks."""


class Remedy(Record, frozen=True):
    """A change that would have made memory available."""

    name: RemedyName
    """[What would have helped](oom.md#what-would-have-helped)."""
    bytes: int
    """The most memory that the change would have made available; for `less_live`, the largest
    group's bytes.
    """
    enough: bool
    """Whether that would have been enough, according to a simulation or else estimated from the
    bytes.
    """
    is_simulated: bool = False
    """Whether a [simulation](simulate.md) decided `enough`."""
    settings: str = ""
    """The allocator settings that make the request succeed in the simulation. Empty if the request
    fails, or if the advice is to drop a setting.
    """
    fails_next: int | None = None
    """The next event whose request fails in that simulation; null if none fails until the end of
    the recording. The program's later requests aren't in the file.
    """


class Oom(OfBackend, Parted, frozen=True, kw_only=True):
    """A failed request, and the memory at that moment.

    The groups' `bytes` and `rest_bytes` add up to `active_bytes`.
    """

    number: int
    """Number of the failed request on this device, from 1."""
    event_index: int
    """Event of the failed request."""
    time_us: int | None
    """Time of that event."""
    cause: Cause
    """[Why the request failed](oom.md#causes)."""
    request_bytes: int
    """The request's size, rounded to a block size."""
    needed_bytes: int
    """The size that the allocator then requested from the driver; for an expandable segment, an
    upper bound.
    """
    missing_bytes: int
    """`needed_bytes` minus the driver's free memory, at least 0."""
    pool: tuple[int, int]
    """The pool of the request: `[0, 0]` is the default."""
    pool_assumed: bool
    """Whether the default pool is assumed because the event doesn't name the pool."""
    stream: int
    """Stream."""
    kind: Kind
    """The kind of blocks that serve the request: those for requests up to 1 MiB, or for larger
    ones.
    """
    asked_by: Asker
    """The code that made the request."""
    device_free_bytes: int | None
    """The driver's free memory; null if the event doesn't say."""
    outside_bytes: int
    """Memory on the card outside this allocator, or a lower bound."""
    outside_known: bool
    """Whether `outside_bytes` is the exact amount (with `--total-memory`) rather than a lower
    bound.
    """
    other_bytes: int | None = None
    """The part of `outside_bytes` that other processes held, as memreplay's recorder [measured
    it](outside.md); null if unknown.
    """
    reserved_bytes: int
    """Reserved bytes."""
    active_bytes: int
    """Active bytes."""
    allocated_bytes: int
    """Allocated bytes."""
    requested_bytes: int
    """Requested bytes."""
    pending_bytes: int
    """Active bytes whose free is waiting for a stream."""
    cached_bytes: int
    """Free bytes in the allocator's cache."""
    cached: tuple[CachedPart, ...]
    """The free bytes by the reason why they didn't serve the request, largest first. They add up to
    `cached_bytes`.
    """
    remedies: tuple[Remedy, ...]
    """Remedies, in the order in which to try them."""
    after_events: int
    """Number of events recorded after the failed request."""
    after_allocations: int
    """Number of allocations after the failed request: 0 if the error ended the program, many if the
    program caught it.
    """
    more_bytes: int | None
    """How much more memory this request needs, by simulation: `missing_bytes`, or if that isn't
    enough, what the whole recording needs. Null if a simulation can't tell.
    """
    to_end_bytes: int | None
    """How much more memory the whole recording needs so that no request fails, by simulation; at
    least `missing_bytes`. Null if a simulation can't tell.
    """
    state_bytes: int
    """In an optimizer's first step: the bytes still to allocate, including this request, estimated
    from the gradients; otherwise 0.
    """
    live_count: int
    """Number of active blocks."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    categories: tuple[CategoryBytes, ...]
    """Active bytes by category, largest first."""
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
        """The measure that the groups are in."""
        return "active"

    @property
    def step_missing_bytes(self) -> int:
        """How much more memory an optimizer's first step needs according to `state_bytes`;
        otherwise 0.
        """
        if not self.state_bytes:
            return 0
        room = self.reserved_bytes + (self.device_free_bytes or 0)
        return max(self.missing_bytes, self.active_bytes + self.state_bytes - room)


class LastState(Record, Parted, frozen=True, kw_only=True):
    """The state at the end of a trace without a failed request.

    If the program dumped because of an error, this is most likely where a request failed. The
    groups' `bytes` and `rest_bytes` add up to `active_bytes`.
    """

    event_index: int
    """The last event; `first_event` - 1 if there is none."""
    time_us: int | None
    """Time of that event."""
    peak_event: int | None
    """The first event after which active bytes are at their peak; null if only the final state is
    known.
    """
    peak_bytes: int | None
    """The peak of active bytes; null if only the final state is known."""
    reserved_bytes: int | None
    """Bytes reserved at the end; null if the file doesn't show reserved memory."""
    active_bytes: int
    """Bytes active at the end."""
    cached_bytes: int | None
    """Free bytes in reserved memory; null if the file doesn't show reserved memory."""
    largest_free_bytes: int | None
    """Size of the largest free block; null if the file doesn't show reserved memory."""
    live_count: int
    """Number of active blocks."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    categories: tuple[CategoryBytes, ...]
    """Active bytes by category, largest first."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    pools: tuple[Part, ...] | UnsetType = UNSET
    streams: tuple[Part, ...] | UnsetType = UNSET

    @property
    def measure(self) -> MeasureName:
        """The measure that the groups are in."""
        return "active"


class DeviceOoms(OfBackend, frozen=True, kw_only=True):
    """One device's failed requests."""

    device: int
    first_event: int
    events: int
    trace_events: int
    start_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    total_memory_bytes: int | None
    total_memory_known: bool
    ooms_total: int
    """Number of failed requests."""
    end: LastState | None = None
    """The state at the end, if no request failed on any device; otherwise null."""
    ooms: tuple[Oom, ...]
    """All failed requests, regardless of `--oom`."""


class OomReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.oom/1"):
    """The result of `memreplay oom`."""

    text_only = ("chosen",)

    file: str
    by: By
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceOoms, ...]
    held_by: RecordedHolders | None = None
    """Which Python objects held the memory; null if that wasn't recorded."""
    card_memory: tuple[CardUse, ...] = ()
    """How much of each card this process and others used; empty if that wasn't recorded."""
    chosen: int = 1
    """Number of the failed request to show in detail; 0 for all."""

    def document(self) -> Document:
        from memreplay.commands.oom.text import oom_document

        return oom_document(self)
