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
Ending = Literal["signal", "timeout", "count", "until_over", "once"]


class Largest(Record, frozen=True):
    """What held most at a peak."""

    by: LargestBy
    """What it is: a [category](categories.md); the user's code, if no rule knows the category of
    most; of reserved memory a pool."""
    label: str
    """What it is called. Of code its wording may change."""
    bytes: int
    """What it held."""
    share: float
    """`bytes` as a share of the peak, 0.0 to 1.0."""


class WatchedDevice(Record, frozen=True, kw_only=True):
    """The peak of one device in a snapshot."""

    device: int
    exactness: Exactness
    peak_bytes: int
    """The highest usage, by the measure."""
    event_index: int
    """The first event after which usage is that high; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; for the start the first event's."""
    start_us: int | None
    reserved_peak_bytes: int
    """The most that was reserved, at whatever event."""
    change_bytes: int | None
    """The change of `peak_bytes` since the last snapshot of the same family and device; null for
    the first."""
    changed_since: str | None
    """The `file` of that snapshot."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted the categories, or rules guess them."""
    largest: Largest | None
    """What held most at the peak; null if nothing is known of it."""
    annotation: str | None
    """The innermost annotation that is open at the peak."""
    step: StepAt | None
    """The step that the peak is in, if there are annotations."""
    past: tuple[Limit, ...]
    """The limits that it is past: `max_peak`, `max_reserved`."""
    trusted: bool
    reasons: tuple[str, ...]


class WatchTotals(Record, frozen=True, kw_only=True):
    """What a watch has seen."""

    ended: Ending
    """Why it ended: by Ctrl-C or SIGTERM, or by the option of this name."""
    snapshots: int
    """How many snapshots were listed; one that was rewritten counts again."""
    ranks: int
    """Of how many ranks, as names or memreplay's recorder say; 0 if any of them says none."""
    past_budget: int
    """How many of them were past a limit."""
    not_read: int
    """How many files were listed that could not be read."""
    peak_bytes: int | None
    """The highest peak of all; null if there was none."""
    peak_file: str | None
    """The `file` that has it."""
    peak_device: int | None
    """The device that has it."""


class WatchLine(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.watch/1"):
    """A line of `memreplay watch`: a snapshot, a file that could not be read, or the end."""

    text_only = ("name",)

    kind: Literal["snapshot", "not_read", "end"]
    """What it is of."""
    time_us: int
    """When the file was last written; of the `end` when that was."""
    folder: str | None
    """The folder, as it was named; null at the `end`."""
    file: str | None
    """The path of the file, with the folder; null at the `end`."""
    file_bytes: int | None
    """Its size; null if it is gone, and at the `end`."""
    rank: int | None
    """Its rank, as its name or memreplay's recorder says; else null."""
    rewritten: bool
    """Whether a line before was of the same file."""
    measure: MeasureName
    past_budget: bool
    """Whether any of its devices is past a limit."""
    error: str | None
    """Of `not_read`: why not, in a line."""
    exit_code: int
    """Of `not_read`: the exit code of that error; of the `end` that of the command; else 0."""
    devices: tuple[WatchedDevice, ...]
    """One for each device; none but of a `snapshot`."""
    totals: WatchTotals | UnsetType = UNSET
    """Of the `end`: all of it."""
    name: str = ""
    """What to call the file in a column."""
