"""The results of `memreplay baseline`: what of a snapshot later ones are held against."""

from __future__ import annotations

from memreplay.snapshot.model import EventRange, Group, MeasureName
from memreplay.snapshot.record import Record

SCHEMA = "memreplay.baseline/1"


class BaselinePeak(Record, frozen=True):
    """The peak of one measure, of a category or within an annotation (None: of everything).

    `groups` are by stack, cut down to the user's frames, the largest first; others of
    `groups_total` have `rest_bytes` in `rest_count` allocations. There are none of measures but the
    baseline's own.
    """

    measure: MeasureName
    category: str | None
    annotation: str | None
    bytes: int
    count: int
    event_index: int
    groups: tuple[Group, ...] = ()
    groups_total: int = 0
    rest_bytes: int = 0
    rest_count: int = 0


class BaselineDevice(Record, frozen=True):
    """The peaks of one device, and by measure the reasons not to trust them."""

    device: int
    peaks: tuple[BaselinePeak, ...]
    reasons: dict[MeasureName, tuple[str, ...]]


class Baseline(Record, frozen=True):
    """A snapshot boiled down.

    `file` is its name without folders. `categories` are those that its rules have, and `rules`
    tells these rules from others; a category without a peak held nothing. `range` is which events
    were read, None in a file that does not say.
    """

    file: str
    measure: MeasureName
    rules: str
    categories: tuple[str, ...]
    devices: tuple[BaselineDevice, ...]
    range: EventRange | None = None
