"""The results of `memreplay diff` of two folders of rank files."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.diff.result import DiffReport
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, Exactness, MeasureName, OfBackend, When
from memreplay.snapshot.record import Record


class RankSide(OfBackend, frozen=True, kw_only=True):
    """A device of one rank's snapshot at the moment that is compared."""

    file: str
    """The rank's file."""
    device: int
    bytes: int
    """Live then, by the measure."""
    event_index: int
    """The event after which it is so; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


class RankDiff(Record, frozen=True, kw_only=True):
    """One rank in both runs, by the device on which the new run has most."""

    rank: int
    """The rank."""
    device: int
    """The device in the new run."""
    other_devices: tuple[int, ...] = ()
    """Devices that either file has besides; they are not compared."""
    base_bytes: int
    """Live in the base at its moment."""
    new_bytes: int
    """Live in the new run at its moment."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    base: RankSide
    """The base at its moment."""
    new: RankSide
    """The new run at its moment."""
    trusted: bool
    """Whether both are [trusted](numbers.md#exact-estimated-trusted)."""


class Spread(Record, frozen=True, kw_only=True):
    """How one number lies over the ranks."""

    min_bytes: int
    """The lowest."""
    min_rank: int
    """The first rank that has it."""
    median_bytes: int
    """The median; of an even number of ranks the mean of the two in the middle, rounded down."""
    max_bytes: int
    """The highest."""
    max_rank: int
    """The first rank that has it."""
    sum_bytes: int
    """The sum of all ranks."""
    imbalance: float | UnsetType | None = UNSET
    """Of a run: `max_bytes` by `median_bytes`; null if that is 0."""


class RanksReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.diff_ranks/1"
):
    """What `memreplay diff` of two folders found: a rank each that both have."""

    base_folder: str
    """The first folder, as it was named."""
    new_folder: str
    """The second folder, as it was named."""
    measure: MeasureName
    by: By
    moment: When
    """What is compared: the peak of each, unless `--at` says otherwise."""
    exact: bool
    """Whether nothing but equal stacks was matched (`--exact`)."""
    filters: Filters | None = None
    only_base: tuple[int, ...] = ()
    """Ranks of the base alone; they are not compared."""
    only_new: tuple[int, ...] = ()
    """Ranks of the new run alone; they are not compared."""
    not_read: tuple[int, ...] = ()
    """Ranks that could not be compared: a file that cannot be read, or lacks what was asked for."""
    unranked_files: tuple[str, ...] = ()
    """Files without a rank in their name, if others have one; they are not compared."""
    base: Spread
    """How the ranks lie in the base."""
    new: Spread
    """How the ranks lie in the new run."""
    change: Spread
    """How their changes lie."""
    ranks: tuple[RankDiff, ...]
    """One for each rank that both have, in their order: all of them, whatever `--top` says."""
    detail_rank: int | None
    """The rank whose groups follow; null if it could not be read."""
    detail: DiffReport | None
    """The diff of its two files, on the device that it is compared by."""

    def document(self) -> Document:
        from memreplay.commands.diff.ranks_text import ranks_document

        return ranks_document(self)
