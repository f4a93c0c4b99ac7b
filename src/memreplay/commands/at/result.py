"""The results of `memreplay at`."""

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
    from memreplay.analysis.groups.tree import CallTree


class Stack(Coded, frozen=True):
    """A call stack."""


class Lived(Record, frozen=True, kw_only=True):
    """An allocation, from when to when it is live."""

    address: int
    """Where it is."""
    bytes: int
    """Its bytes, by the measure."""
    alloc_event: int | None
    """The event that made it; null if it is older than the recording."""
    alloc_us: int | None
    """When; null also if the file has no times."""
    age_events: int | None
    """How many events ago that was; null if it is older than the recording."""
    age_us: int | None
    """How long ago; null also if the file has no times."""
    free_event: int | None
    """The event with which the measure lets go of it; null if it is not freed in this recording."""
    free_us: int | None
    """When; null also if the file has no times."""
    freed_at: Frame | None
    """The frame that freed it; null if the recording has no stack of the free."""
    stream: int | None
    """Its stream; null if it is not known."""
    pool: tuple[int, int] | None
    """Its pool; null if it is not known."""


class LiveAllocation(Lived, frozen=True, kw_only=True):
    """One allocation that is live at a moment."""

    label: str
    stack: int
    """Its place in `stacks`."""


class _LivedCode(Lived, frozen=True, kw_only=True):
    """Such an allocation with its stack."""

    label: str
    user: tuple[int, ...]
    libraries: tuple[int, ...]
    frames: tuple[Frame, ...]


class FoundAllocation(_LivedCode, frozen=True):
    """The allocation that an address was in."""

    number: int
    """Which of the allocations with this address it is, from 1."""
    total: int
    """How many there are."""


class DeviceAt(OfBackend, Parted, frozen=True, kw_only=True):
    """What one device held at a moment. The `bytes` of the groups and `rest_bytes` add up to
    `live_bytes`."""

    device: int
    measure: MeasureName
    exactness: Exactness
    moment: When
    """The moment that was asked for."""
    event_index: int
    """The event after which it is so; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; for the start the first event's."""
    start_us: int | None
    """The first time of the whole trace, with `--from` too."""
    live_bytes: int
    """What was live then, by the measure."""
    live_count: int
    """In how many allocations; 0 for reserved bytes."""
    peak_bytes: int
    """The highest of the measure in what was read."""
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
    """With `--list`: the largest first, as many as `--top` says."""
    stacks: tuple[Stack, ...] | UnsetType = UNSET
    """With `--list`: the stacks of `allocations`, each once."""
    found: FoundAllocation | UnsetType = UNSET
    """Of an address: the allocation that it was in."""
    tree: CallTree | UnsetType = UNSET
    caught: RulesCaught | UnsetType = UNSET
    """With `--rules`: what each rule of categories caught."""


class AtReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.at/1"):
    """What `memreplay at` found."""

    file: str
    measure: MeasureName
    by: By
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    missing: tuple[str, ...] = ()
    """Why devices are left out of a moment that others have."""
    devices: tuple[DeviceAt, ...]
    """One for each moment and device, in the order of the moments."""
    annotations: tuple[DeviceAnnotations, ...] | UnsetType = UNSET
    """With `--annotations`: one for each device."""

    def document(self) -> Document:
        from memreplay.commands.at.text import at_document

        return at_document(self)
