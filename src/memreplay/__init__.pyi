"""Types of the public names. Written by `make public` from the declarations."""

import os
from collections.abc import Iterable, Sequence
from typing import Literal

from memreplay.analysis.categories.rules import Rule as Rule
from memreplay.analysis.comparing.baseline_record import Baseline
from memreplay.analysis.comparing.budgets import Budget, BudgetOptions
from memreplay.analysis.comparing.records import PhaseChoice
from memreplay.analysis.comparing.sides import BaselineSide
from memreplay.analysis.leaks.judging import LeaksOptions
from memreplay.analysis.selecting.selection import Filters as Filters
from memreplay.analysis.selecting.selection import Selection as Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.allocations.find import AllocationsOptions
from memreplay.commands.allocations.result import AllocationsReport
from memreplay.commands.at.find import AtOptions
from memreplay.commands.at.result import AtReport
from memreplay.commands.diff.find import DiffOptions
from memreplay.commands.diff.result import DiffReport
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fragmentation.find import FragmentationOptions
from memreplay.commands.fragmentation.result import FragmentationReport
from memreplay.commands.fragmentation.segments_result import SegmentsReport
from memreplay.commands.leaks.result import LeaksReport
from memreplay.commands.modules.find import ModulesOptions
from memreplay.commands.modules.result import ModulesReport, ModulesSort
from memreplay.commands.oom.find import OomOptions
from memreplay.commands.oom.result import OomReport
from memreplay.commands.peak.find import PeakOptions
from memreplay.commands.peak.result import PeakReport
from memreplay.commands.plan.find import PlanOptions
from memreplay.commands.plan.result import PlanReport
from memreplay.commands.report.find import ReportOptions
from memreplay.commands.report.result import Overview
from memreplay.commands.result_json import to_json as to_json
from memreplay.commands.shared.executing import Workers
from memreplay.commands.simulate.changing import Changing
from memreplay.commands.simulate.find import SimulateOptions
from memreplay.commands.simulate.result import SimulateReport
from memreplay.commands.steps.result import StepsReport
from memreplay.commands.summary.result import SnapshotSummary
from memreplay.commands.timeline.find import TimelineOptions
from memreplay.commands.timeline.result import TimelineReport
from memreplay.commands.view.find import view as view
from memreplay.errors import LimitError as LimitError
from memreplay.errors import MemreplayError as MemreplayError
from memreplay.errors import MissingExtraError as MissingExtraError
from memreplay.errors import NothingToTellError as NothingToTellError
from memreplay.errors import SnapshotError as SnapshotError
from memreplay.errors import TruncatedError as TruncatedError
from memreplay.errors import UnsafePickleError as UnsafePickleError
from memreplay.errors import UsageError as UsageError
from memreplay.export.tables.building import table as table
from memreplay.fleets.result import FleetReport
from memreplay.gating.find import Terms
from memreplay.gating.result import GateReport
from memreplay.io.limits import Limits as Limits
from memreplay.io.version import __version__ as __version__
from memreplay.opening import Snapshot as Snapshot
from memreplay.opening import open as open
from memreplay.recording.estimate import Estimate as Estimate
from memreplay.recording.estimate import estimate as estimate
from memreplay.recording.estimate import estimating as estimating
from memreplay.recording.recorder import Recorder as record
from memreplay.snapshot.model import AllocationsSort, MeasureName
from memreplay.snapshot.model import Frame as Frame
from memreplay.snapshot.model import Lifetimes as Lifetimes
from memreplay.snapshot.model import LiveSet as LiveSet
from memreplay.snapshot.model import Moment as Moment
from memreplay.snapshot.model import PeakPoint as PeakPoint
from memreplay.snapshot.model import When as When
from memreplay.snapshot.page_view import PageView as PageView
from memreplay.snapshot.replay import Replay as Replay
from memreplay.snapshot.replay import Usage as Usage
from memreplay.snapshot.retold import retold as retold

__all__ = [
    "Estimate",
    "Filters",
    "Frame",
    "Lifetimes",
    "LimitError",
    "Limits",
    "LiveSet",
    "MemreplayError",
    "MissingExtraError",
    "Moment",
    "NothingToTellError",
    "PageView",
    "PeakPoint",
    "Replay",
    "Rule",
    "Selection",
    "Snapshot",
    "SnapshotError",
    "TruncatedError",
    "UnsafePickleError",
    "Usage",
    "UsageError",
    "When",
    "__version__",
    "allocations",
    "at",
    "baseline",
    "diff",
    "estimate",
    "estimating",
    "fleet",
    "fragmentation",
    "gate",
    "leaks",
    "modules",
    "oom",
    "open",
    "peak",
    "plan",
    "record",
    "report",
    "retold",
    "segments",
    "simulate",
    "steps",
    "summary",
    "table",
    "timeline",
    "to_json",
    "view",
]

def allocations(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: AllocationsOptions | None = ...,
    *,
    measure: MeasureName = ...,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    sort: AllocationsSort = ...,
    temporary: int = ...,
) -> AllocationsReport:
    """Summarize all allocations of the selected events on each device with data.

    `sort` orders the groups. `temporary`: an allocation is temporary if it's freed before more than
    this many others follow. `top` limits the groups (0: all). With `pool` or `stream`, only
    allocations of that pool or stream count, and devices without it are left out. Raises UsageError
    for reserved memory, which has no allocations, and for an unknown pool or stream.

    With `fold`, stacks that differ only in plumbing frames are merged.
    """

def at(
    snap: Snapshot | str | bytes | os.PathLike[str],
    when: When | str | int | Sequence[When | str | int],
    selection: Selection | None = ...,
    options: AtOptions | None = ...,
    *,
    measure: MeasureName = ...,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    only_carried_over: bool = ...,
    no_carried_over: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    tree: bool = ...,
    depth: int = ...,
    tree_share: float | str = ...,
    inverted: bool = ...,
    list: bool = ...,
    annotations: bool = ...,
    caught: bool = ...,
    holders: bool = ...,
    whole_stacks: bool = ...,
) -> AtReport:
    """Return each device's live set at one or several moments.

    Each `when` is a When or text: "peak:2", "oom", "step:3", "1.5s", an event's number, an
    annotation's name, an address (docs/at.md). `tree` gives a call tree in place of groups,
    `list` adds the single allocations, `caught` adds what each category rule matched, `holders`
    adds which Python objects kept the memory alive, and `annotations` adds the usage at `top`
    annotations. With `fold`, stacks that differ only in
    plumbing frames are merged. A device without the moment is left out, and `missing` says why.
    Raises UsageError if no device has it, and for `list` with reserved memory, which has no
    allocations.
    """

def baseline(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    *,
    budgets: Iterable[Budget] = ...,
    measure: MeasureName = ...,
    top: int = ...,
    strict: bool = ...,
    device: int | None = ...,
    rules: tuple[Rule, ...] | None = ...,
) -> Baseline:
    """Return every device's peaks of all measures. For `measure`, they include groups, the peaks by
    category and annotation, and whatever `budgets` need.

    Keep `top` groups per peak (0: all). Raises UsageError for reserved memory, for an unknown
    category, and for an empty snapshot.
    """

def diff(
    base: Snapshot | str | bytes | os.PathLike[str] | BaselineSide,
    new: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: DiffOptions | None = ...,
    *,
    measure: MeasureName = ...,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    only_carried_over: bool = ...,
    no_carried_over: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    at: When | str | None = ...,
    exact: bool = ...,
    unchanged: bool = ...,
    all_frames: bool = ...,
) -> DiffReport:
    """Return the changes from `base` to `new` on each common device. Each snapshot is compared at
    its own moment `at`.

    If there is no common device but each snapshot has exactly one, compare these two. The base may
    be a baseline, which has groups by stack at the peak of one measure.

    Rows that differ only in plumbing frames are merged unless `all_frames` is set. `exact` only
    matches identical stacks; `unchanged` keeps unchanged rows. `top` limits the rows (0: no limit);
    `device` is a device of the new snapshot. Raises UsageError if there is no device to compare, if
    one snapshot lacks the moment, or if a filter's pattern matches no frame in either.
    """

def fleet(
    sources: str | Sequence[str],
    selection: Selection | None = ...,
    options: Fleet | None = ...,
    *,
    salvage: bool = ...,
    measure: MeasureName = ...,
    top: int = ...,
    strict: bool = ...,
    device: int | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    base: str | Iterable[str] = ...,
    total_memory: int | str | Iterable[int | str] = ...,
    rank_pattern: str | None = ...,
    dump: str | None = ...,
    output: str | os.PathLike[str] | None = ...,
    tables: str | None = ...,
    force: bool = ...,
    workers: int | str | None = ...,
    memory_per_worker: int | str | None = ...,
    readers: Workers = ...,
) -> FleetReport:
    """Read all ranks of a run: their peaks and spread, groups of similar ranks, and outliers.

    `sources`: folders, patterns (`run/**/*.pickle`, `s3://bucket/run/*.pkl`) and files. `workers`:
    a number of local processes (default: one per processor) or the address of a Dask scheduler,
    which doesn't change the result. `memory_per_worker`: limit for each local process.
    `total_memory`: cards to check each rank against. Both are numbers of bytes or text such as
    "80GiB". `base`: another fleet to compare with. `rank_pattern`: a regular expression whose only
    group is the rank in a file name. If ranks have several dumps, the newest is read, or the one
    named by `dump`; with "each", the report's `history` covers all dumps. `output`: a folder for
    the `tables` (comma-separated; default: all) of all ranks as one Parquet dataset. Ranks already
    in that folder aren't read again, and another fleet's ranks are only removed with `force`.
    `salvage` reads the intact part of truncated files.

    An unreadable file becomes a row with an error. Raises UsageError if no file is found or a rank
    occurs twice, and MissingExtraError without Dask.
    """

def fragmentation(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: FragmentationOptions | None = ...,
    *,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    strict: bool = ...,
    device: int | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    at: When | str | None = ...,
    bars: int = ...,
    blocks: bool = ...,
) -> FragmentationReport:
    """Report on every selected device. `at`: moment of the block map; by default, the first failed
    request or else a peak. Peaks are those of active memory.

    `top` limits the groups that block memory (0: all), and the segments if `bars` is set. With
    `blocks`, all segments are included with their blocks. A device without the moment is left out,
    and `missing` says why. Raises UsageError if no device has it.

    With `fold`, stacks that differ only in plumbing frames are merged.
    """

def gate(
    snap: Snapshot | str | bytes | os.PathLike[str],
    *,
    base: Snapshot | Baseline | str | os.PathLike[str] | None = ...,
    budget: BudgetOptions | None = ...,
    terms: Terms | None = ...,
    phase: PhaseChoice | None = ...,
    measure: MeasureName = ...,
    max_peak: int | str | None = ...,
    max_growth: float | str | None = ...,
    max_growth_bytes: int | str | None = ...,
    max_reserved: int | str | None = ...,
    max_fragmentation: float | str | None = ...,
    max_spread: float | str | None = ...,
    forbid_leaks: bool = ...,
    forbid_oom: bool = ...,
    name: str = ...,
    device: int | None = ...,
    category: str | None = ...,
    annotation: str | None = ...,
    allow_untrusted: bool = ...,
    strict: bool = ...,
    rules: tuple[Rule, ...] | None = ...,
) -> GateReport:
    """Check a snapshot against a budget: `gate(snap, max_peak="38GiB", forbid_oom=True)`.

    `budget` holds limits with the same names as in a [[gate]] table (docs/gate.md); `rules` are
    category rules. Sizes are strings with a unit, or numbers of bytes; shares are strings such as
    "2%". `base` is the reference for growth: a snapshot, a result of `memreplay.baseline`, or the
    path of a baseline file. `terms`: with `allow_untrusted`, a snapshot is judged even if it
    contradicts itself; with `strict`, it also fails if the recorder's buffer overflowed. The
    report's `passed` is the answer. Raises TypeError for an unknown limit; UsageError for a
    meaningless budget, or one that names something the snapshot lacks (a device, a category, an
    annotation); OSError and SnapshotError for an unreadable base.
    """

def leaks(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: LeaksOptions | None = ...,
    *,
    measure: MeasureName = ...,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    annotation: str | None = ...,
    period: int | None = ...,
    windows: int | None = ...,
    older_than: int = ...,
    min_growth: int | str = ...,
    total_memory: int | str | None = ...,
) -> LeaksReport:
    """Return each device's leaks (docs/leaks.md has the rule).

    Steps are the annotations named `annotation` (names are compared up to a #), or ranges of
    `period` events; by default, they're found automatically (docs/steps.md). With `windows`, that
    many equal parts of the trace are used instead, as for files without steps. Filters don't change
    steps. `by`: the kind of groups to judge. `total_memory`: the device's memory in bytes.
    Allocations still live after `older_than` steps count as old; growth below `min_growth` bytes
    per step is ignored. A device with fewer than 5 steps isn't judged. Raises UsageError for
    reserved memory, and NothingToTellError if no device has steps.
    """

def modules(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: ModulesOptions | None = ...,
    *,
    measure: MeasureName = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    only_carried_over: bool = ...,
    no_carried_over: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    at: When | str | None = ...,
    depth: int = ...,
    sort: ModulesSort = ...,
) -> ModulesReport:
    """Return each device's live set at the moment `at`, by module.

    `depth` and `top` limit the modules, and `sort` orders them; `by` and `rules` don't apply.
    Raises NothingToTellError for a snapshot without recorded modules. Raises UsageError for
    reserved memory, which doesn't belong to modules, and for a moment that a device lacks.
    """

def oom(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: OomOptions | None = ...,
    *,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    strict: bool = ...,
    device: int | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    oom: int = ...,
    total_memory: int | str | None = ...,
    most: int = ...,
) -> OomReport:
    """Report the out-of-memory events of every selected device.

    `oom`: the failed request to explain in detail (0: all). Apart from this one, only each device's
    first `most` are listed (0: all). `total_memory`: the card's memory in bytes, if known. Raises
    UsageError if no device has that many failed requests, or if the card is smaller than what was
    observed. With `fold`, stacks that differ only in plumbing frames are merged.
    """

def peak(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: PeakOptions | None = ...,
    *,
    measure: MeasureName = ...,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    only_carried_over: bool = ...,
    no_carried_over: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    tree: bool = ...,
    depth: int = ...,
    tree_share: float | str = ...,
    inverted: bool = ...,
    peaks: int = ...,
    caught: bool = ...,
    holders: bool = ...,
    whole_stacks: bool = ...,
) -> PeakReport:
    """Return each device's peak with its live set in groups.

    `by` defaults to "stack" ("pool" for reserved memory). `top` limits the number of groups per
    device (0: all). `peaks` is the number of separate maxima. `tree` gives a call tree in place of
    groups, `caught` adds what each category rule matched, and `holders` which Python objects kept
    the memory alive. With `pool` or `stream`, only memory
    of that pool or stream counts, and devices without it are left out. With `strict`, all of a
    device's checks are made, as for a summary. With `fold`, stacks that differ only in plumbing
    frames are merged. Raises UsageError for an unknown device, pool or stream.
    """

def plan(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: PlanOptions | None = ...,
    *,
    strict: bool = ...,
    device: int | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fit: int | str | None = ...,
) -> PlanReport:
    """Return at most three plans per device with which the recorded program fits a card with `fit`
    bytes in all.

    Raises UsageError without `fit`, and NothingToTellError if nothing was recorded.
    """

def report(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: ReportOptions | None = ...,
    *,
    strict: bool = ...,
    device: int | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    total_memory: int | str | None = ...,
) -> Overview:
    """Return every command's result. Parts that don't apply are left out, with a reason.

    `total_memory`: the card's memory in bytes. With `fold`, stacks that look the same are one
    group, as in `memreplay peak`. Raises UsageError if the file shows that the card is larger.
    """

def segments(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    *,
    top: int = ...,
    strict: bool = ...,
    device: int | None = ...,
) -> SegmentsReport:
    """Report on every selected device.

    `top`: number of largest changes (0: all). With `strict`, all of a device's checks are made, as
    for a summary.
    """

def simulate(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: SimulateOptions | None = ...,
    *,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    only_carried_over: bool = ...,
    no_carried_over: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    set: str | Iterable[str] = ...,
    total_memory: int | str | Iterable[int | str] = ...,
    search: Literal["card", "settings"] | Iterable[Literal["card", "settings"]] = ...,
    scale: float | None = ...,
    checkpoint: bool = ...,
    category: str | Iterable[str] = ...,
    program_memory: tuple[int, ...] = ...,
    changing: Changing = ...,
) -> SimulateReport:
    """Simulate every device that was read, with `set` replacing some of the settings in its
    recording. `scale` and `checkpoint` change the program itself first: the allocations that
    `category`, `include` and the other filters choose.

    `total_memory`: cards by total bytes, including the part that CUDA itself uses.
    `program_memory`: cards by the part that the program can use. Each card is checked, and the
    largest is simulated for comparison with the recording. `search`: "card" finds the minimum
    memory, unless the program is changed; "settings" tries about 30 more settings.

    Raises UsageError for settings that PyTorch rejects and for a change without effect, and
    NothingToTellError for cards without events.
    """

def steps(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: StepOptions | None = ...,
    *,
    measure: MeasureName = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    strict: bool = ...,
    device: int | None = ...,
    annotation: str | None = ...,
    period: int | None = ...,
) -> StepsReport:
    """Return each device's steps.

    Steps are the annotations named `annotation` (names are compared up to a #), or ranges of
    `period` events; by default, they're found automatically (docs/steps.md). Raises
    NothingToTellError if no device has steps, and UsageError if none has the requested ones.
    """

def summary(
    snap: Snapshot | str | bytes | os.PathLike[str],
) -> SnapshotSummary:
    """Replay each device, and return everything that `memreplay summary` shows."""

def timeline(
    snap: Snapshot | str | bytes | os.PathLike[str],
    selection: Selection | None = ...,
    options: TimelineOptions | None = ...,
    *,
    by: str | Sequence[str] | None = ...,
    top: int = ...,
    pool: tuple[int, int] | str | None = ...,
    stream: int | str | None = ...,
    include: str | Iterable[str] = ...,
    exclude: str | Iterable[str] = ...,
    min_bytes: int | str = ...,
    only_live_at_end: bool = ...,
    only_carried_over: bool = ...,
    no_carried_over: bool = ...,
    strict: bool = ...,
    device: int | None = ...,
    filters: Filters | None = ...,
    rules: tuple[Rule, ...] | None = ...,
    fold: bool = ...,
    measure: str | Iterable[str] = ...,
    x: Literal["event", "time", "utc"] | None = ...,
    points: int | None = ...,
) -> TimelineReport:
    """Return each measure on each device, in at most `points` buckets (default 1,000).

    `measure` replaces the selection's single measure. `x` defaults to "time" if all devices with
    events have distinct times and aren't mostly idle, otherwise "event". With `by`, each bucket's
    maximum is split into the `top` groups with the highest individual peaks (0: all) and the rest.
    Raises UsageError for missing times, and NothingToTellError if only reserved memory was
    requested and the file has none.

    With `fold`, stacks that differ only in plumbing frames are merged.
    """

_HOME: dict[str, str]

def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...
