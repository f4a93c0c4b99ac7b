"""The results of `memreplay fleet`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.comparing.records import DiffRow
from memreplay.analysis.groups.kinds import CategoriesSource, CategoryBytes
from memreplay.analysis.steps.records import StepAt
from memreplay.commands.diff.ranks_result import Spread
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record

RankStatus = Literal["ok", "empty", "unreadable", "memory", "died"]
RankSource = Literal["pattern", "names", "recorder", "order", "devices"]
CurveKind = Literal["steps", "events"]


class Holder(Record, frozen=True):
    """Code that held memory at a peak."""

    label: str
    """The frame that it is put down to, as `function file:line`."""
    bytes: int
    """What it held."""
    count: int
    """In how many allocations."""


class CardFit(Record, frozen=True):
    """Whether a rank fits on another card, with the settings of its recording."""

    total_bytes: int
    """What the driver has for the program there."""
    fits: bool
    """Whether no request fails."""
    exactness: Exactness
    """Whether that is exact, as [a simulation](simulate.md#what-is-exact) can be."""


class FleetDevice(OfBackend, frozen=True, kw_only=True):
    """One device of one rank."""

    device: int
    exactness: Exactness
    peak_bytes: int
    """The peak of the measure."""
    event_index: int
    """The first event after which it is reached; -1 is the start."""
    time_us: int | None
    """That event's time."""
    start_us: int | None
    """The time of the first event."""
    step: StepAt | None
    """The step that the peak is in, where the recorder noted steps or annotations mark them."""
    reserved_peak_bytes: int
    """Most that the allocator had reserved."""
    unused_bytes: int
    """That less the peak of active bytes: what was reserved and never needed."""
    total_bytes: int | None
    """The card's memory; null where the file does not tell it."""
    headroom_bytes: int | None
    """`total_bytes` - `reserved_peak_bytes`."""
    end_bytes: int
    """What was held at the end of the recording, by the measure."""
    ooms: int
    """How many requests failed."""
    leak_bytes_per_step: int | None
    """What code that leaks adds with each step; null where no steps are marked, or too few."""
    categories_source: CategoriesSource
    """Whether memreplay's recorder noted categories, or they are guessed."""
    categories: tuple[CategoryBytes, ...]
    """What was held at the peak, by category, the largest first."""
    holders: tuple[Holder, ...]
    """The code that held most at the peak, the largest first."""
    curve_by: CurveKind
    """Whether the curve has a number a step, or one for each of equal parts of the events."""
    curve: tuple[int, ...]
    """The highest bytes in each of them."""
    cards: tuple[CardFit, ...]
    """One for each `--total-memory`."""
    trusted: bool
    reasons: tuple[str, ...]


class FleetRank(Record, frozen=True, kw_only=True):
    """One rank: one file."""

    text_only = ("noted_rank",)

    rank: int | None
    """Its number; null for a file that tells none where others do."""
    file: str
    """As it was found."""
    status: RankStatus
    """`ok`; `empty`: it has neither events nor segments. `unreadable`: the error says why.
    `memory`: it took more than a worker may have. `died`: reading it ended two workers."""
    error: str
    """What is wrong with it, on one line; empty if it is read."""
    truncated: bool
    """Whether it is cut off, and this is of its whole part (`--salvage`)."""
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    host: str | None
    """The machine, where memreplay's recorder noted it."""
    devices: tuple[FleetDevice, ...]
    """The device with the highest peak first: that is the rank's own."""
    noted_rank: int | None = None


class RankDump(Record, frozen=True, kw_only=True):
    """One of the dumps of a rank; the numbers are null where it could not be read."""

    name: str
    """What it is called: `iteration_10`."""
    file: str
    """Its file, as it was found."""
    status: RankStatus
    """Whether it was read, as of a rank."""
    error: str
    """What is wrong with it, on one line; empty if it is read."""
    peak_bytes: int | None
    """The peak of the measure, in what this dump recorded."""
    reserved_peak_bytes: int | None
    """Most that the allocator had reserved."""
    end_bytes: int | None
    """What was held when the dump was made, by the measure."""
    ooms: int | None
    """How many requests failed."""
    exactness: Exactness | None
    reasons: tuple[str, ...]


class RankHistory(Record, frozen=True, kw_only=True):
    """The dumps of one rank, the oldest first: how it grew."""

    rank: int | None
    """Its number."""
    device: int
    """Which of its devices this is of, as the last dump that was read numbers it."""
    peak_change_bytes: int | None
    """From the first dump that was read to the last; null if fewer than two were."""
    reserved_change_bytes: int | None
    """The same of most reserved bytes."""
    end_change_bytes: int | None
    """The same of what was held when the dump was made."""
    dumps: tuple[RankDump, ...]
    """All of them."""


class HolderChange(Record, frozen=True):
    """Code that holds more or less than it does elsewhere."""

    label: str
    """The frame that it is put down to."""
    base_bytes: int
    """What it holds there."""
    new_bytes: int
    """What it holds here."""


class RankGroup(Record, frozen=True, kw_only=True):
    """Ranks that hold the same at their peaks, but for a few per cent."""

    ranks: tuple[int, ...]
    """In their order."""
    typical_rank: int
    """The one with the median peak."""
    min_bytes: int
    """The lowest peak of them."""
    max_bytes: int
    """The highest."""
    differs: tuple[HolderChange, ...]
    """What sets its typical rank apart from that of the largest group, the largest change first;
    empty for that group itself."""


class Outlier(Record, frozen=True, kw_only=True):
    """A rank that is not like the others."""

    rank: int
    """Its number."""
    typical_rank: int
    """The typical rank of the group that comes nearest, which it is compared with."""
    peak_bytes: int
    """Its peak."""
    typical_bytes: int
    """The other one's."""
    change_bytes: int
    """`peak_bytes` - `typical_bytes`."""
    rows: tuple[DiffRow, ...]
    """The code that makes the difference, as `memreplay diff` of the two files has it, the largest
    change first."""
    error: str
    """Why that could not be told; empty if it could."""


class Moment(Record, frozen=True, kw_only=True):
    """All ranks in the same step, or in the same part of their events."""

    number: int
    """Which one, from 1."""
    min_bytes: int
    """The lowest peak in it."""
    median_bytes: int
    """The median."""
    max_bytes: int
    """The highest."""
    max_rank: int
    """The first rank that has it."""


class FleetCard(Record, frozen=True, kw_only=True):
    """All ranks on another card."""

    total_bytes: int
    """What the driver has for the program there."""
    fitting: int
    """How many ranks fit."""
    not_fitting: tuple[int, ...]
    """Those that do not."""
    exactness: Exactness
    """`exact` if that is so for each."""


class RankChange(Record, frozen=True):
    """One rank in two fleets, by the device with the highest peak of each."""

    rank: int
    """Its number."""
    base_bytes: int
    """Its peak in the base."""
    new_bytes: int
    """Its peak in the new fleet."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""


class FleetChange(Record, frozen=True, kw_only=True):
    """What changed since another fleet."""

    source: str
    """The base, as it was asked for."""
    peak: Spread | None
    """How its peaks lie; null if nothing of it was read."""
    change: Spread | None
    """How the changes lie; null if the two have no rank in common."""
    ranks: tuple[RankChange, ...]
    """One for each rank that was read in both, the largest change first."""
    only_base: tuple[int, ...]
    """Ranks of the base alone, or that were not read in the new fleet."""
    only_new: tuple[int, ...]
    """Ranks of the new fleet alone, or that were not read in the base."""
    told_rank: int | None
    """The rank that grew most, or if none did shrank most; null if none changed."""
    rows: tuple[DiffRow, ...]
    """The code that changed in it, as `memreplay diff` of its two files has it, the largest change
    first."""
    error: str
    """Why that could not be told; empty if it could."""


class UnlistedFolder(Record, frozen=True, kw_only=True):
    """A folder that could not be listed."""

    folder: str
    """Its path."""
    reason: str
    """Why, on one line."""


class FleetReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fleet/1"):
    """What `memreplay fleet` found: a rank each for all files, and what they are together."""

    source: str
    """What was asked for: folders, patterns and files."""
    measure: MeasureName
    rank_source: RankSource
    """Where the numbers of the ranks come from: `--rank-pattern`, the files' names, what
    memreplay's recorder noted, or the order of the names."""
    files: int
    """How many files there are."""
    read: int
    """How many of them were read, and are not empty."""
    missing_ranks: tuple[int, ...]
    """Numbers between 0 and the last rank that no file has."""
    ranks: tuple[FleetRank, ...]
    """One for each file, by its rank, then those without one."""
    peak: Spread | None
    """How the peaks lie; null if nothing was read."""
    reserved: Spread | None
    """How the peaks of reserved memory lie."""
    headroom: Spread | None
    """How what was left of the cards lies; null if no file tells a card's size."""
    worst: tuple[int, ...]
    """Ranks by their peak, the highest first, as many as `--top` says."""
    out_of_memory: tuple[int, ...]
    """Ranks with a request that failed, in the order in which it did."""
    groups: tuple[RankGroup, ...]
    """Ranks that are alike, the largest group first."""
    outliers: tuple[Outlier, ...]
    """Ranks that are like no group of some size, the largest difference first."""
    curve_by: CurveKind | None
    """What the curve below has a number for; null if nothing was read."""
    curve: tuple[Moment, ...]
    """The ranks over time, up to the last step that all of them have."""
    imbalance: float | None
    """The highest rank by the median one, on average over the curve: what would be saved if all
    were like the median. Null where the median is 0."""
    cards: tuple[FleetCard, ...]
    """One for each `--total-memory`."""
    against: FleetChange | None = None
    """What changed since the fleet of `--base`."""
    history: tuple[RankHistory, ...] | UnsetType = UNSET
    """With `--dump each`: of each rank with several dumps how it grew from one to the next. All
    else is of its newest dump."""
    dumps_choice: str = ""
    """Which of several dumps of each rank were read, in words; empty if there was no choice."""
    different_steps: str = ""
    """Which rank's dump is of which step, in words, if the dumps that were read are of different
    steps; else empty."""
    unlisted_folders: tuple[UnlistedFolder, ...] = ()
    """Folders that could not be listed: what is in them is left out."""
    exactness: Exactness
    """Whether all that was read is exact."""
    trusted: bool
    """Whether all of it can be trusted, and all was read and listed."""

    def document(self) -> Document:
        from memreplay.fleets.text import fleet_document

        return fleet_document(self)
