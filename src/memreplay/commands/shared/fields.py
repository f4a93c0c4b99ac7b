"""What keys mean that many records have: said here once, and not again in each of them."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.records import Blocker
from memreplay.analysis.groups.tree import CallTree
from memreplay.analysis.selecting.selection import Filters
from memreplay.snapshot.model import By, Coded, Exactness, Group, MeasureName, Part
from memreplay.snapshot.record import Record


class Shared(Coded, frozen=True, kw_only=True):
    """The meaning of a field that says none itself (ci/schemas.py). Nothing is made of this."""

    # Of a report.
    file: str
    """The input, as it was named."""
    measure: MeasureName
    """Which [bytes](numbers.md#the-measures)."""
    by: By
    """What groups stand for: one of the [ways](numbers.md#ways-to-group), or several joined by
    commas."""
    pool: tuple[int, int] | None
    """The pool that alone was asked for."""
    stream: int | None
    """The stream that alone was asked for."""
    filters: Filters | None
    """Which allocations alone count; null for all."""
    truncated: bool
    """The file is cut off, and this is of its whole part (`--salvage`)."""
    unknown_devices: tuple[int, ...] | UnsetType
    """Devices whose trace lies behind the place where the file is cut off: nothing else here is
    about them. Absent if there are none."""
    devices: tuple[Record, ...]
    """One for each device."""

    # Of a device.
    device: int
    """The device's index."""
    exactness: Exactness
    """Whether the numbers are exact; the reasons say why not."""
    first_event: int
    """The index of the first event that was read: 0 without `--from`, and if the range has no
    events."""
    events: int
    """How many events were read; all of them without `--from` and `--to`."""
    trace_events: int
    """How many events the whole trace has."""
    start_us: int | None
    """The time of the first event; with `--from`, of the first that was read."""
    trusted: bool
    """Whether nothing speaks against the numbers:
    [trusted](numbers.md#exact-estimated-trusted)."""
    reasons: tuple[str, ...]
    """Why they are not exact or not trusted, or what else to know: see
    [reasons](#reasons)."""

    total_bytes: int | None
    """The card's memory, or the most that was seen of it; null if nothing is known."""
    total_known: bool
    """Whether it was given (`--total-memory`), or is in the file."""

    # Of groups.
    groups: tuple[Group, ...]
    """The largest first, as many as `--top` says."""
    groups_total: int
    """How many groups there are, before `--top` cut them."""
    rest_bytes: int
    """The bytes of the groups that `--top` cut."""
    rest_count: int
    """Their allocations."""
    pools: tuple[Part, ...] | UnsetType = UNSET
    """With `--by pool`: the pools, the largest first; `--top` does not cut them."""
    streams: tuple[Part, ...] | UnsetType = UNSET
    """With `--by stream`: the streams, the largest first; `--top` does not cut them."""
    tree: CallTree | UnsetType = UNSET
    """With `--tree`: the same as a tree of calls."""

    # Of blocks in use next to free ones.
    pinned_bytes: int
    """Free bytes that `empty_cache()` would not give back, blocked by blocks in use next to them;
    `pins` and `pins_rest_bytes` add up to them."""
    pins: tuple[Blocker, ...]
    """Which groups block these, the most first, as many as `--top` says."""
    pins_total: int
    """How many groups block any, before `--top` cut them."""
    pins_rest_bytes: int
    """What the groups that `--top` cut block."""
    pins_rest_count: int
    """Their blocks."""
