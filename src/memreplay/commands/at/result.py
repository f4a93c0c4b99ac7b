"""The result of `memreplay at`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from memreplay.analysis.caught.records import RulesCaught
from memreplay.analysis.moments.records import DeviceAnnotations
from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import (
    By,
    Coded,
    Exactness,
    Frame,
    Group,
    MeasureName,
    OfBackend,
    Part,
    Parted,
    When,
)
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.groups.holding import LiveHolders
    from memreplay.analysis.groups.tree import CallTree


class Stack(Coded, frozen=True):
    """A call stack."""


class Lived(Record, frozen=True, kw_only=True):
    """An allocation, and when it's live."""

    address: int
    """Address of the allocation's first byte."""
    bytes: int
    """Size, by the measure."""
    alloc_event: int | None
    """Event that made the allocation; null if carried over."""
    alloc_us: int | None
    """Time of `alloc_event`; null if carried over, or if the file has no times."""
    age_events: int | None
    """Number of events since `alloc_event`; null if carried over."""
    age_us: int | None
    """Time since `alloc_event`; null if carried over, or if the file has no times."""
    free_event: int | None
    """First event after which the measure no longer counts the allocation; null if never freed."""
    free_us: int | None
    """Time of `free_event`; null if never freed, or if the file has no times."""
    freed_at: Frame | None
    """Frame that freed the allocation; null if stacks of frees weren't recorded."""
    stream: int | None
    """Stream; null if unknown."""
    pool: tuple[int, int] | None
    """Pool; null if unknown."""


class LiveAllocation(Lived, frozen=True, kw_only=True):
    """An allocation live at the moment."""

    label: str
    stack: int
    """Index of the allocation's stack in `stacks`."""


class _LivedCode(Lived, frozen=True, kw_only=True):
    """A live allocation with its stack."""

    label: str
    user: tuple[int, ...]
    libraries: tuple[int, ...]
    frames: tuple[Frame, ...]


class FoundAllocation(_LivedCode, frozen=True):
    """The allocation at an address."""

    number: int
    """Number of the allocation among those at this address, counting from 1."""
    total: int
    """Number of allocations at this address."""


class DeviceAt(OfBackend, Parted, frozen=True, kw_only=True):
    """One device at the moment.

    The groups' `bytes` and `rest_bytes` add up to `live_bytes`.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    moment: When
    """The moment, as given."""
    event_index: int
    """The moment is right after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event; for the start, the time of the first event."""
    start_us: int | None
    """First time of the whole trace, even with `--from`."""
    live_bytes: int
    """Live bytes of the measure."""
    live_count: int
    """Number of allocations; 0 for reserved bytes."""
    peak_bytes: int
    """Peak of the measure in the selected events."""
    first_event: int
    events: int
    trace_events: int
    trusted: bool
    reasons: tuple[str, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    pools: tuple[Part, ...] | UnsetType = UNSET
    streams: tuple[Part, ...] | UnsetType = UNSET
    allocations: tuple[LiveAllocation, ...] | UnsetType = UNSET
    """With `--list`: the `--top` largest allocations, largest first."""
    stacks: tuple[Stack, ...] | UnsetType = UNSET
    """With `--list`: the distinct stacks of `allocations`."""
    allocation: FoundAllocation | UnsetType = UNSET
    """For an address: the allocation at that address."""
    tree: CallTree | UnsetType = UNSET
    caught: RulesCaught | UnsetType = UNSET
    """With `--rules`: what each category rule matched."""
    held_by: LiveHolders | UnsetType | None = UNSET
    """With `--holders`: who held the live set; null if the file doesn't say."""


class AtReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.at/1"):
    """The result of `memreplay at`."""

    file: str
    measure: MeasureName
    by: By
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    missing: tuple[str, ...] = ()
    """The reasons why devices without the moment are left out."""
    devices: tuple[DeviceAt, ...]
    """One entry per moment and device, in the order of the moments."""
    annotations: tuple[DeviceAnnotations, ...] | UnsetType = UNSET
    """With `--annotations`: one entry per device."""

    def document(self) -> Document:
        from memreplay.commands.at.text import at_document

        return at_document(self)
