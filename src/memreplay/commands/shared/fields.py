"""Descriptions of JSON keys that many records share."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.records import Blocker
from memreplay.analysis.groups.tree import CallTree
from memreplay.analysis.selecting.selection import Filters
from memreplay.snapshot.model import By, Coded, Exactness, Group, MeasureName, Part
from memreplay.snapshot.record import Record


class Shared(Coded, frozen=True, kw_only=True):
    """Descriptions of fields that many records have, used by ci/schemas.py. Never instantiated."""

    # Fields of reports.
    file: str
    """The input, as given on the command line."""
    measure: MeasureName
    """The [measure](numbers.md#the-measures)."""
    by: By
    """How allocations are grouped: one of the [ways](numbers.md#ways-to-group), or several joined
    by commas."""
    pool: tuple[int, int] | None
    """The memory pool to which `--only pool` limits the numbers; null for all."""
    stream: int | None
    """The stream to which `--only stream` limits the numbers; null for all."""
    filters: Filters | None
    """The filters that allocations have to pass; null for all allocations."""
    truncated: bool
    """Whether the file is truncated, so that only its intact part was read (`--salvage`)."""
    unknown_devices: tuple[int, ...] | UnsetType
    """Devices whose traces are in the missing part of a truncated file. The rest of this document
    doesn't cover them. Absent if there are none.
    """
    devices: tuple[Record, ...]
    """One entry per device."""

    # Fields of devices.
    device: int
    """Device index."""
    exactness: Exactness
    """Whether the numbers are exact. If they aren't, the reasons explain why."""
    first_event: int
    """Index of the first event that was read, which is 0 without `--from`, or if the range is
    empty.
    """
    events: int
    """Number of events that were read. Without `--from` and `--to`, these are all events."""
    trace_events: int
    """Number of events in the whole trace."""
    start_us: int | None
    """Time of the first event or, with `--from`, of the first event that was read."""
    trusted: bool
    """Whether the numbers can be [trusted](numbers.md#exact-estimated-trusted)."""
    reasons: tuple[str, ...]
    """Why the numbers aren't exact or can't be trusted, and other remarks:
    [reasons](numbers.md#whether-to-trust-them-the-reasons).
    """

    total_memory_bytes: int | None
    """The card's memory, or the most memory that was observed on the card; null if unknown."""
    total_memory_known: bool
    """Whether the size was given (`--total-memory`) or is in the file."""

    # Fields of groups.
    groups: tuple[Group, ...]
    """The `--top` largest groups, largest first."""
    groups_total: int
    """Number of groups before applying `--top`."""
    rest_bytes: int
    """Bytes of the groups that `--top` omitted."""
    rest_count: int
    """Number of allocations in the groups that `--top` omitted."""
    pools: tuple[Part, ...] | UnsetType = UNSET
    """With `--by pool`: all pools, largest first, regardless of `--top`."""
    streams: tuple[Part, ...] | UnsetType = UNSET
    """With `--by stream`: all streams, largest first, regardless of `--top`."""
    tree: CallTree | UnsetType = UNSET
    """With `--tree`: the live set as a call tree."""

    # Fields about free memory pinned by neighbouring blocks.
    pinned_bytes: int
    """Free bytes that `empty_cache()` can't release because they're pinned by neighbouring blocks
    in use. `pins` and `pins_rest_bytes` add up to this.
    """
    pins: tuple[Blocker, ...]
    """The `--top` groups whose blocks pin most free memory, largest first."""
    pins_total: int
    """Number of groups that pin memory, before applying `--top`."""
    pins_rest_bytes: int
    """Free bytes pinned by the groups that `--top` omitted."""
    pins_rest_count: int
    """Number of blocks in the groups that `--top` omitted."""
