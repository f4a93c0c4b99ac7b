"""The result of `memreplay peak`."""

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
    from memreplay.analysis.groups.holding import LiveHolders
    from memreplay.analysis.groups.tree import CallTree


class DevicePeak(OfBackend, Parted, frozen=True, kw_only=True):
    """One device's peak by one measure, and what held memory at that moment.

    The groups' `bytes` and `rest_bytes` add up to `peak_bytes`.
    """

    text_only = ("annotations",)

    device: int
    measure: MeasureName
    exactness: Exactness
    peak_bytes: int
    """The peak."""
    peak_event: int
    """The first event after which usage is at its peak; `first_event` - 1 is the start."""
    peak_us: int | None
    """Time of that event; for the start, the time of the first event."""
    start_us: int | None
    carried_over_bytes: int
    """Bytes live before the first event that was read."""
    carried_over_at_peak_bytes: int
    """Carried-over bytes that are still live at the peak; 0 for reserved bytes."""
    end_bytes: int
    """Bytes live after the last event that was read."""
    first_event: int
    events: int
    trace_events: int
    live_count: int
    """Number of allocations live at the peak; 0 for reserved bytes."""
    annotation: str | None
    """The innermost annotation open at the peak."""
    step: StepAt | None
    """The step at the peak, if steps are marked."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    categories: tuple[CategoryBytes, ...]
    """The live set at the peak by category, largest first; empty for reserved bytes."""
    trusted: bool
    reasons: tuple[str, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    peaks: tuple[PeakPoint, ...] = ()
    """The `--peaks` highest separate peaks."""
    pools: tuple[Part, ...] | UnsetType = UNSET
    streams: tuple[Part, ...] | UnsetType = UNSET
    tree: CallTree | UnsetType = UNSET
    caught: RulesCaught | UnsetType = UNSET
    """With `--rules`: the live allocations that each category rule matched."""
    held_by: LiveHolders | UnsetType | None = UNSET
    """With `--holders`: who held the live set; null if the file doesn't say."""
    annotations: tuple[str, ...] = ()
    """The annotations open at the peak, outermost first."""


class PeakReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.peak/1"):
    """The result of `memreplay peak`: one entry for each device with events or segments."""

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
