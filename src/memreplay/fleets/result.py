"""The result of `memreplay fleet`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.comparing.records import DiffRow
from memreplay.analysis.comparing.spread import Spread
from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.analysis.steps.records import StepAt
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record

RankStatus = Literal["ok", "empty", "unreadable", "memory", "died"]
RankSource = Literal["pattern", "names", "recorder", "order", "devices"]
CurveKind = Literal["steps", "events"]


class Holder(Record, frozen=True):
    """A call site that held memory at a peak."""

    label: str
    """The frame that the memory is attributed to, as `function file:line`."""
    bytes: int
    """Bytes that the call site held."""
    count: int
    """Number of allocations."""


class CardFit(Record, frozen=True):
    """Whether a rank fits on another card, with the same settings as in its recording."""

    total_memory_bytes: int
    """The card's memory."""
    fits: bool
    """Whether all of the rank's requests succeed."""
    exactness: Exactness
    """Whether the answer is exact, as [a simulation](simulate.md#what-is-exact) can be."""


class FleetDevice(OfBackend, frozen=True, kw_only=True):
    """One of a rank's devices."""

    device: int
    exactness: Exactness
    peak_bytes: int
    """Peak of the measure."""
    peak_event: int
    """The first event after which usage is at its peak; -1 is the start."""
    peak_us: int | None
    """Time of that event."""
    start_us: int | None
    """Time of the first event."""
    step: StepAt | None
    """The step with the peak, if steps were recorded or annotated."""
    reserved_peak_bytes: int | None
    """Peak of reserved memory; null if the file doesn't say."""
    unused_bytes: int | None
    """`reserved_peak_bytes` minus the peak of active bytes. The two peaks may be at different
    events. Null if the file doesn't say.
    """
    total_memory_bytes: int | None
    """The card's memory; null if the file doesn't show it."""
    headroom_bytes: int | None
    """`total_memory_bytes` - `reserved_peak_bytes`."""
    end_bytes: int
    """Live bytes at the end of the recording, by the measure."""
    oom_count: int
    """Number of failed requests."""
    leak_bytes_per_step: int | None
    """How much leaking call sites grow per step; null if too few steps are marked."""
    categories_source: CategoriesSource
    """Whether categories were recorded or guessed."""
    categories: tuple[CategoryBytes, ...]
    """Bytes at the peak by category, largest first."""
    holders: tuple[Holder, ...]
    """Largest call sites at the peak."""
    curve_by: CurveKind
    """What each number of the curve covers: a step, or one of several equal parts of the events."""
    curve_bytes: tuple[int, ...]
    """Maximum bytes in each step or part."""
    cards: tuple[CardFit, ...]
    """One result per `--total-memory`."""
    trusted: bool
    reasons: tuple[str, ...]


class FleetRank(Record, frozen=True, kw_only=True):
    """One rank, that is, one file."""

    text_only = ("noted_rank",)

    rank: int | None
    """Rank number; null if this file has none but others do."""
    file: str
    """The file's name, as found."""
    status: RankStatus
    """`ok`; `empty`: no events or segments; `unreadable`: see `error`; `memory`: it exceeded a
    worker's memory limit; `died`: reading it crashed two workers.
    """
    error: str | None
    """The error in one line; null if the file was read."""
    truncated: bool
    """Whether the file is truncated and only its intact part was read (`--salvage`)."""
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    host: str | None
    """Host name, if the recorder noted one."""
    devices: tuple[FleetDevice, ...]
    """The rank's devices. The one with the highest peak comes first and represents the rank."""
    noted_rank: int | None = None


class RankDump(Record, frozen=True, kw_only=True):
    """One of a rank's dumps. Numbers are null if it couldn't be read."""

    name: str
    """Name: `iteration_10`."""
    file: str
    """The file's name, as found."""
    status: RankStatus
    """The same values as a rank's status."""
    error: str | None
    """The error in one line; null if the dump was read."""
    peak_bytes: int | None
    """Peak of the measure within this dump's recording."""
    reserved_peak_bytes: int | None
    """Peak of reserved memory."""
    end_bytes: int | None
    """Live bytes when the dump was written, by the measure."""
    oom_count: int | None
    """Number of failed requests."""
    exactness: Exactness | None
    reasons: tuple[str, ...]


class RankHistory(Record, frozen=True, kw_only=True):
    """One rank's dumps, oldest first."""

    rank: int | None
    """Rank number."""
    device: int
    """The device's number in the last readable dump."""
    peak_change_bytes: int | None
    """Change of the peak from the first to the last readable dump; null if fewer than two are
    readable.
    """
    reserved_change_bytes: int | None
    """Change of the reserved peak."""
    end_change_bytes: int | None
    """Change of the bytes live when the dump was written."""
    dumps: tuple[RankDump, ...]
    """All dumps."""


class HolderChange(Record, frozen=True):
    """A call site that holds more or less memory than in the other file."""

    label: str
    """The frame that the memory is attributed to."""
    base_bytes: int
    """Bytes on the other side."""
    new_bytes: int
    """Bytes on this side."""


class RankGroup(Record, frozen=True, kw_only=True):
    """Ranks whose memory at the peak agrees within a few percent."""

    rank_numbers: tuple[int, ...]
    """In order."""
    typical_rank: int
    """The rank with the median peak."""
    min_bytes: int
    """Lowest peak."""
    max_bytes: int
    """Highest peak."""
    differs: tuple[HolderChange, ...]
    """Differences between the group's typical rank and the largest group's, largest change first;
    empty for the largest group.
    """


class Outlier(Record, frozen=True, kw_only=True):
    """A rank unlike the others."""

    rank: int
    """Rank number."""
    typical_rank: int
    """The typical rank of the most similar group. The outlier is compared with this rank."""
    peak_bytes: int
    """The outlier's peak."""
    typical_bytes: int
    """The typical rank's peak."""
    change_bytes: int
    """`peak_bytes` - `typical_bytes`."""
    rows: tuple[DiffRow, ...]
    """The call sites that cause the difference, as `memreplay diff` of the two files shows them,
    largest change first.
    """
    error: str | None
    """Why the call sites are unknown; null if they're known."""


class Moment(Record, frozen=True, kw_only=True):
    """All ranks in the same step, or the same part of their events."""

    number: int
    """The step's or part's number, from 1."""
    min_bytes: int
    """Lowest peak."""
    median_bytes: int
    """Median peak."""
    max_bytes: int
    """Highest peak."""
    max_rank: int
    """The first rank with the highest peak."""


class FleetCard(Record, frozen=True, kw_only=True):
    """The result for all ranks on another card."""

    total_memory_bytes: int
    """The card's memory."""
    fitting: int
    """Number of ranks that fit."""
    not_fitting: tuple[int, ...]
    """Ranks that don't fit."""
    exactness: Exactness
    """`exact` if each rank's result is exact."""


class RankChange(Record, frozen=True):
    """One rank in two fleets, represented in each by its device with the highest peak."""

    rank: int
    """Rank number."""
    base_bytes: int
    """Peak in the base."""
    new_bytes: int
    """Peak in the new fleet."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""


class FleetChange(Record, frozen=True, kw_only=True):
    """Changes since another fleet."""

    input: str
    """The base fleet, as given."""
    peak: Spread | None
    """Spread of the base's peaks; null if none of its files could be read."""
    change: Spread | None
    """Spread of the changes; null if there are no common ranks."""
    ranks: tuple[RankChange, ...]
    """Ranks that were read in both fleets, largest change first."""
    only_base: tuple[int, ...]
    """Ranks that were read only in the base."""
    only_new: tuple[int, ...]
    """Ranks that were read only in the new fleet."""
    told_rank: int | None
    """The rank that grew most, or else shrank most; null if none changed."""
    rows: tuple[DiffRow, ...]
    """That rank's changed call sites, as in `memreplay diff` of the two files, largest change
    first.
    """
    error: str | None
    """Why the call sites are unknown; null if they're known."""


class UnlistedFolder(Record, frozen=True, kw_only=True):
    """A folder that couldn't be listed."""

    folder: str
    """Path."""
    reason: str
    """The reason in one line."""


class FleetReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fleet/1"):
    """The result of `memreplay fleet`: one entry per file, and summaries."""

    input: str
    """Folders, patterns and files, as given."""
    measure: MeasureName
    rank_source: RankSource
    """Source of the rank numbers: `--rank-pattern`, file names, the recorder, or file order."""
    file_count: int
    """Number of files."""
    read_count: int
    """Number of files that were read and aren't empty."""
    missing_ranks: tuple[int, ...]
    """Ranks without a file, below the highest rank that has one."""
    ranks: tuple[FleetRank, ...]
    """One entry per file, by rank; files without a rank come last."""
    peak: Spread | None
    """Spread of the peaks; null if no file was read."""
    reserved: Spread | None
    """Spread of the reserved peaks."""
    headroom: Spread | None
    """Spread of the headroom; null if no card's size is known."""
    worst: tuple[int, ...]
    """The `--top` ranks with the highest peaks."""
    out_of_memory: tuple[int, ...]
    """Ranks with failed requests, in order."""
    groups: tuple[RankGroup, ...]
    """Groups of similar ranks, largest group first."""
    outliers: tuple[Outlier, ...]
    """Ranks that aren't in a large enough group, largest difference first."""
    curve_by: CurveKind | None
    """What each number of the curve covers; null if no file was read."""
    curve: tuple[Moment, ...]
    """The ranks over time, up to the last common step."""
    imbalance: float | None
    """The highest rank's bytes divided by the median rank's, averaged over the curve. It shows what
    could be gained if all ranks were like the median. Null if the median is 0.
    """
    cards: tuple[FleetCard, ...]
    """One result per `--total-memory`."""
    against: FleetChange | None = None
    """Changes since the `--base` fleet."""
    history: tuple[RankHistory, ...] | UnsetType = UNSET
    """With `--dump each`: the growth of each rank with several dumps. Everything else describes the
    newest.
    """
    dumps_choice: str = ""
    """Which dumps of each rank were read; "" if each rank has only one."""
    different_steps: str = ""
    """The steps that the dumps are from, if they differ; otherwise ""."""
    unlisted_folders: tuple[UnlistedFolder, ...] = ()
    """Folders that couldn't be listed. The report lacks their files."""
    exactness: Exactness
    """Whether all numbers are exact."""
    trusted: bool
    """Whether all numbers are trustworthy, and all files were listed and read."""

    def document(self) -> Document:
        from memreplay.fleets.text import fleet_document

        return fleet_document(self)
