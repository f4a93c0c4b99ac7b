"""The results of `memreplay peak`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from memreplay.analysis.caught.records import RulesCaught
from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.analysis.selecting.selection import Filters
from memreplay.analysis.steps.records import StepAt
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import (
    By,
    Exactness,
    Group,
    MeasureName,
    OfBackend,
    Part,
    Parted,
    PeakPoint,
)

if TYPE_CHECKING:
    from memreplay.analysis.groups.tree import CallTree


class DevicePeak(OfBackend, Parted, frozen=True, kw_only=True):
    """The highest usage of one device by one measure, and who held it. The `bytes` of the groups
    and `rest_bytes` add up to `peak_bytes`."""

    text_only = ("annotations",)

    device: int
    measure: MeasureName
    exactness: Exactness
    peak_bytes: int
    """The highest usage."""
    event_index: int
    """The first event after which usage is that high; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; for the start the first event's."""
    start_us: int | None
    carried_over_bytes: int
    """What was live before the first event that was read."""
    carried_over_at_peak_bytes: int
    """The part of what was carried over that is live at the peak; 0 for reserved bytes."""
    end_bytes: int
    """What is live after the last event that was read."""
    first_event: int
    events: int
    trace_events: int
    live_count: int
    """How many allocations are live at the peak; 0 for reserved bytes."""
    annotation: str | None
    """The innermost annotation that is open at the peak."""
    step: StepAt | None
    """The step that the peak is in, if there are annotations."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    categories: tuple[CategoryBytes, ...]
    """The categories of all that is held at the peak, the largest first; none for reserved
    bytes."""
    trusted: bool
    reasons: tuple[str, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    peaks: tuple[PeakPoint, ...] = ()
    """The highest separate peaks, as many as `--peaks` says."""
    pools: tuple[Part, ...] | UnsetType = UNSET
    streams: tuple[Part, ...] | UnsetType = UNSET
    tree: CallTree | UnsetType = UNSET
    caught: RulesCaught | UnsetType = UNSET
    """With `--rules`: what each rule of categories caught."""
    annotations: tuple[str, ...] = ()
    """The annotations that are open at the peak, the outermost first."""


class PeakReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.peak/1"):
    """What `memreplay peak` found: a device each that has events or segments."""

    file: str
    measure: MeasureName
    by: By
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DevicePeak, ...]

    def document(self) -> Document:
        from memreplay.commands.peak.text import peak_document

        return peak_document(self)
