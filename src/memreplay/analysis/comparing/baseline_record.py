"""The base that `memreplay gate --save-base` writes, and later snapshots are held against."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from memreplay.analysis.code.native import FramesKept
from memreplay.analysis.comparing.records import Phase
from memreplay.snapshot.model import EventRange, MeasureName
from memreplay.snapshot.record import Record

SCHEMA = "memreplay.baseline/1"
MOST = 2**62 - 1  # of what a snapshot counts
MOST_BYTES = 2**63 - 1  # what replays check their sums against
Count = Annotated[int, Meta(ge=0, le=MOST)]
Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES)]  # a sum, which may be larger than any size
Index = Annotated[int, Meta(ge=-1, le=MOST)]
Line = Annotated[int, Meta(ge=-MOST, le=MOST)]  # one below 0 is what the snapshot said


class BaselineGroup(Record, frozen=True, kw_only=True):
    """Allocations that share a stack, cut down to the user's frames."""

    bytes: Bytes
    """The bytes that they hold."""
    count: Count
    """How many allocations."""
    label: str
    """A short name for people."""
    is_user: bool
    """Whether the frames are the user's own code."""
    frames: tuple[Count, ...]
    """Places in the `frames` of the whole, innermost first."""


class BaselinePeak(Record, frozen=True, kw_only=True):
    """The peak of a measure, or of a part of it. The `bytes` of the groups and `rest_bytes` add up
    to `bytes`."""

    measure: MeasureName
    category: str | None
    """The category that it is of; null for all."""
    annotation: str | None
    """The annotation that it is within; null for the whole recording."""
    phase: Phase | None = None
    """The phase of a step that it is within; null for the whole recording."""
    categories: dict[str, Bytes] = field(default_factory=dict)
    """What each category holds then; empty for measures but the baseline's own."""
    bytes: Bytes
    """The highest usage."""
    count: Count
    """How many allocations are live then; 0 for measures but the baseline's own."""
    event_index: Index
    """The first event after which usage is that high; -1 is the start."""
    groups_total: Count
    """How many groups there are, before `--top` cut them; 0 for measures but the baseline's own."""
    rest_bytes: Bytes
    rest_count: Count
    groups: tuple[BaselineGroup, ...]
    """The largest first, as many as `--top` says, or ten of a category or an annotation."""


class BaselineDevice(Record, frozen=True, kw_only=True):
    """The peaks of one device."""

    device: Index
    reasons: dict[MeasureName, tuple[str, ...]]
    """By measure, why it is not exact or not trusted, or what else to know: see
    [reasons](#reasons)."""
    peaks: tuple[BaselinePeak, ...]
    """Of every measure; of the baseline's own also of each category that held anything, of
    annotations, and of what `[[gate]]` tables ask for."""


class Baseline(Record, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """A snapshot boiled down, as `memreplay gate --save-base` writes it."""

    file: str
    """The snapshot's name, without folders."""
    measure: MeasureName
    """Which [bytes](numbers.md#the-measures) its groups are of."""
    rules: str
    """What tells the rules of its categories from others."""
    categories: tuple[str, ...]
    """The categories that these have. One without a peak held nothing."""
    range: EventRange | UnsetType = UNSET
    """Which events were read; not there in a file of before this was written."""
    stacks: FramesKept | UnsetType | None = UNSET
    """Which frames the snapshot's stacks had: `all`, of `python` only, or `none`; null if nothing
    was allocated. Not there in a file of before this was written."""
    frames: tuple[tuple[str, str, Line], ...]
    """Each frame once: its function, file and line."""
    devices: tuple[BaselineDevice, ...]
