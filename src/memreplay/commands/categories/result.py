"""The results of `memreplay categories`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.selection import Filters
from memreplay.snapshot.model import Exactness, Group, MeasureName, OfBackend, When
from memreplay.snapshot.record import Record


class Caught(Record, frozen=True, kw_only=True):
    """What one rule caught: each allocation is caught by the first rule that matches."""

    rule: int | None
    """The rule's number, from 1; null for a category that memreplay's recorder noted."""
    category: str
    """The category that it gives."""
    own: bool
    """Whether the configuration has it, and not memreplay itself."""
    bytes: int
    """What it caught."""
    count: int
    """In how many allocations."""
    share: float
    """`bytes` as a share of `live_bytes`, 0.0 to 1.0."""
    largest: Group | None
    """The stack that holds most of it; null if nothing was caught."""


class DeviceCategories(OfBackend, frozen=True, kw_only=True):
    """What one device held at the moment, by rules. The rules' `bytes` and `unknown_bytes` add up
    to `live_bytes`."""

    device: int
    measure: MeasureName
    exactness: Exactness
    event_index: int
    """The event after which it is so; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; for the start the first event's."""
    start_us: int | None
    """The first time of the whole trace, with `--from` too."""
    live_bytes: int
    """What was live then, by the measure."""
    live_count: int
    """In how many allocations."""
    first_event: int
    events: int
    trace_events: int
    trusted: bool
    reasons: tuple[str, ...]
    source: Literal["recorded", "guessed"]
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    rules: tuple[Caught, ...]
    """All rules, in their order; where categories were recorded the rules of the configuration, and
    each category that there is."""
    unknown_bytes: int
    """What no rule caught."""
    unknown_count: int
    """In how many allocations."""
    unknown_total: int
    """In how many stacks."""
    unknown: tuple[Group, ...]
    """The largest of these stacks, as many as `--top` says."""
    notes: tuple[str, ...] = ()
    """What the rules could not tell apart."""


class CategoriesReport(
    Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.categories/1"
):
    """What `memreplay categories` found."""

    text_only = ("all_frames",)

    file: str
    measure: MeasureName
    moment: When
    """The moment that was asked for."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceCategories, ...]
    all_frames: bool = False
    """Whether whole stacks are shown."""
