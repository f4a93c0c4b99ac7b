"""The results of `memreplay categories`."""

from __future__ import annotations

from memreplay.snapshot.model import Exactness, Filters, Group, MeasureName, When
from memreplay.snapshot.record import Record


class Caught(Record, frozen=True):
    """What one rule decided: each allocation is caught by the first rule that holds.

    `rule` is its number, from 1; `own` says whether the configuration has it. `largest` is the
    stack that holds most of it, None where nothing was caught.
    """

    rule: int
    category: str
    own: bool
    bytes: int
    count: int
    share: float
    largest: Group | None


class DeviceCategories(Record, frozen=True):
    """The live set of one device at a moment, by rules.

    `caught` has all rules in their order; with the unknown they add up to `live_bytes` and
    `live_count`. `unknown` are the largest stacks that no rule caught, of `unknown_total`. `notes`
    say what rules could not tell apart.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    event_index: int
    time_us: int | None
    start_us: int | None
    live_bytes: int
    live_count: int
    first_event: int
    events: int
    trace_events: int
    caught: tuple[Caught, ...]
    unknown_bytes: int
    unknown_count: int
    unknown: tuple[Group, ...]
    unknown_total: int
    trusted: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()


class CategoriesReport(Record, frozen=True):
    """What `memreplay categories` shows: an entry a device."""

    file: str
    measure: MeasureName
    when: When
    all_frames: bool
    devices: tuple[DeviceCategories, ...]
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
