"""The lines of `memreplay watch`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.kinds import CategoriesSource
from memreplay.analysis.steps.records import StepAt
from memreplay.snapshot.model import Exactness, MeasureName
from memreplay.snapshot.record import Record

Limit = Literal["max_peak", "max_reserved"]
LargestBy = Literal["category", "line", "pool"]
Ending = Literal["signal", "timeout", "count", "over", "now"]


class Largest(Record, frozen=True):
    """The largest holder at a peak."""

    by: LargestBy
    """The holder's kind: a [category](categories.md); the user's code, if the largest category is
    unknown; or for reserved memory, a pool.
    """
    label: str
    """The holder's name. For code, the wording may change."""
    bytes: int
    """Bytes of the holder."""
    share: float
    """`bytes` as a share of the peak, 0.0 to 1.0."""


class WatchedDevice(Record, frozen=True, kw_only=True):
    """One device's peak in a snapshot."""

    device: int
    exactness: Exactness
    peak_bytes: int
    """Peak of the measure."""
    peak_event: int
    """The first event after which usage is at its peak; `first_event` - 1 is the start."""
    peak_us: int | None
    """Time of that event; for the start, the time of the first event."""
    start_us: int | None
    reserved_peak_bytes: int | None
    """Peak of reserved bytes, possibly at another event; null if the file doesn't show reserved
    memory.
    """
    change_bytes: int | None
    """Change of `peak_bytes` since the last snapshot of the same series and device; null for the
    first."""
    changed_since: str | None
    """The `file` of the previous snapshot."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    largest: Largest | None
    """The largest holder at the peak; null if unknown."""
    annotation: str | None
    """The innermost annotation open at the peak."""
    step: StepAt | None
    """The step at the peak, if steps are marked."""
    over_limits: tuple[Limit, ...]
    """The limits that the device exceeds: `max_peak`, `max_reserved`."""
    trusted: bool
    reasons: tuple[str, ...]


class WatchTotals(Record, frozen=True, kw_only=True):
    """Totals of a watch."""

    ended: Ending
    """Why watching ended: Ctrl-C, SIGTERM, or the option of this name."""
    snapshot_count: int
    """Number of snapshots listed. A snapshot counts again when it's rewritten."""
    rank_count: int
    """Number of ranks, from names or memreplay's recorder; 0 if any snapshot has no rank."""
    over_budget_count: int
    """Number of the listed snapshots that exceed a limit."""
    not_read_count: int
    """Number of listed files that couldn't be read."""
    peak_bytes: int | None
    """The highest peak; null without snapshots."""
    peak_file: str | None
    """The `file` with the highest peak."""
    peak_device: int | None
    """The device with the highest peak."""


class WatchLine(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.watch/1"):
    """A line of `memreplay watch`: a snapshot, a file that couldn't be read, or the end."""

    text_only = ("name",)

    kind: Literal["snapshot", "not_read", "end"]
    """The kind of line."""
    time_us: int
    """When the file was last written; for `end`, when watching ended."""
    folder: str | None
    """The folder, as given; null at the `end`."""
    file: str | None
    """The file's path, including the folder; null at the `end`."""
    file_bytes: int | None
    """The file's size; null if the file no longer exists, and at the `end`."""
    rank: int | None
    """The file's rank, from its name or memreplay's recorder; null if unknown."""
    rewritten: bool
    """Whether an earlier line was about the same file."""
    measure: MeasureName
    over_budget: bool
    """Whether any of the snapshot's devices exceeds a limit."""
    error: str | None
    """For `not_read`: the error, in one line."""
    exit_code: int
    """For `not_read`: the error's exit code; for `end`: the command's exit code; otherwise 0."""
    devices: tuple[WatchedDevice, ...]
    """For `snapshot`: one entry per device; otherwise empty."""
    totals: WatchTotals | UnsetType = UNSET
    """For `end`: totals of the whole watch."""
    name: str = ""
    """Short name to show in a column."""
