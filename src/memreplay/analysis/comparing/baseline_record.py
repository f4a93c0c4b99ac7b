"""The record that `memreplay gate --save-base` writes and later snapshots are compared with."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from memreplay.analysis.code.native import FramesKept
from memreplay.analysis.comparing.records import Phase
from memreplay.snapshot.model import EventRange, MeasureName
from memreplay.snapshot.record import Record

SCHEMA = "memreplay.baseline/1"
MOST = 2**62 - 1  # maximum count in a snapshot
MOST_BYTES = 2**63 - 1  # the engine checks its sums against the same limit
Count = Annotated[int, Meta(ge=0, le=MOST)]
Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES)]  # a sum can be larger than any single size
Index = Annotated[int, Meta(ge=-1, le=MOST)]
Line = Annotated[int, Meta(ge=-MOST_BYTES - 1, le=MOST_BYTES)]  # negative ones are possible


class BaselineGroup(Record, frozen=True, kw_only=True):
    """Allocations whose stacks have the same user frames."""

    bytes: Bytes
    """Bytes they hold."""
    count: Count
    """Number of allocations."""
    label: str
    """Short label."""
    is_user: bool
    """Whether the frames are user code."""
    frames: tuple[Count, ...]
    """Indices in the baseline's `frames`, innermost first."""


class BaselinePeak(Record, frozen=True, kw_only=True):
    """The peak of a measure, or of a part of it. The groups' `bytes` and `rest_bytes` add up to
    `bytes`.
    """

    measure: MeasureName
    category: str | None
    """The category; null for all."""
    annotation: str | None
    """The annotation; null for the whole recording."""
    phase: Phase | None = None
    """The step phase; null for the whole recording."""
    categories: dict[str, Bytes] = field(default_factory=dict)
    """Bytes per category at the peak; only for the baseline's own measure, otherwise empty."""
    bytes: Bytes
    """The peak."""
    count: Count
    """Number of live allocations at the peak; only for the baseline's own measure, otherwise 0."""
    event_index: Index
    """First event after which the peak is reached; -1 for the start."""
    groups_total: Count
    """Number of groups before applying `--top`; only for the baseline's own measure, otherwise 0.
    """
    rest_bytes: Bytes
    rest_count: Count
    groups: tuple[BaselineGroup, ...]
    """The `--top` largest groups, largest first. For a category or annotation, the ten largest."""


class BaselineDevice(Record, frozen=True, kw_only=True):
    """The peaks of one device."""

    device: Index
    reasons: dict[MeasureName, tuple[str, ...]]
    """For each measure, the reasons why it isn't exact or trustworthy, and other remarks: see
    [reasons](numbers.md#whether-to-trust-them-the-reasons).
    """
    peaks: tuple[BaselinePeak, ...]
    """Peaks of every measure. For the baseline's own measure, also the peaks by category and by
    annotation, and the peaks that `[[gate]]` tables need.
    """


class Baseline(Record, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """A reduced snapshot, as written by `memreplay gate --save-base`."""

    file: str
    """File name without folders."""
    measure: MeasureName
    """The [measure](numbers.md#the-measures) that its groups are in."""
    rules: str
    """Identifies the category rules."""
    categories: tuple[str, ...]
    """The rules' categories. A category that isn't among the peaks held nothing."""
    range: EventRange | UnsetType = UNSET
    """Which events were read; missing in files from older versions."""
    stacks: FramesKept | UnsetType | None = UNSET
    """Which frames the stacks have: `all`, `python` or `none`; null without allocations. Missing in
    files from older versions.
    """
    frames: tuple[tuple[str, str, Line], ...]
    """Distinct frames: function, file and line."""
    devices: tuple[BaselineDevice, ...]
