"""The result of `memreplay diff` for two folders of rank files."""

from __future__ import annotations

from memreplay.analysis.comparing.spread import Spread
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.diff.result import DiffReport
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, Exactness, MeasureName, OfBackend, When
from memreplay.snapshot.record import Record


class RankSide(OfBackend, frozen=True, kw_only=True):
    """A device of one rank at the compared moment."""

    file: str
    """The rank's file."""
    device: int
    bytes: int
    """Live bytes of the measure."""
    event_index: int
    """The moment is right after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


class RankDiff(Record, frozen=True, kw_only=True):
    """One rank in both runs, on the device with the most bytes in the new run."""

    rank: int
    """Rank number."""
    device: int
    """Device in the new run."""
    other_devices: tuple[int, ...] = ()
    """Other devices in either file, which aren't compared."""
    base_bytes: int
    """Live bytes in the base at the compared moment."""
    new_bytes: int
    """Live bytes in the new run at the compared moment."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    base: RankSide
    """The base at the compared moment."""
    new: RankSide
    """The new run at the compared moment."""
    trusted: bool
    """Whether both are [trusted](numbers.md#exact-estimated-trusted)."""


class RanksReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.diff_ranks/1"
):
    """The result of `memreplay diff` for two folders: one entry per common rank."""

    base_folder: str
    """The first folder, as given."""
    new_folder: str
    """The second folder, as given."""
    measure: MeasureName
    by: By
    moment: When
    """Compared moment: each file's peak, unless `--at` is given."""
    exact: bool
    """Whether only identical stacks match (`--exact`)."""
    filters: Filters | None = None
    only_base: tuple[int, ...] = ()
    """Ranks that only the base has, which aren't compared."""
    only_new: tuple[int, ...] = ()
    """Ranks that only the new run has, which aren't compared."""
    not_read: tuple[int, ...] = ()
    """Ranks that couldn't be compared because a file is unreadable or lacks the requested data."""
    unranked_files: tuple[str, ...] = ()
    """Files without a rank, which aren't compared if others have a rank."""
    base: Spread
    """Spread of the bytes over the ranks in the base."""
    new: Spread
    """Spread of the bytes over the ranks in the new run."""
    change: Spread
    """Spread of the changes."""
    ranks: tuple[RankDiff, ...]
    """All common ranks, in order, regardless of `--top`."""
    detail_rank: int | None
    """The rank that `detail` is about; null if it couldn't be read."""
    detail: DiffReport | None
    """The diff of the rank's two files, on the compared device."""

    def document(self) -> Document:
        from memreplay.commands.diff.ranks_text import ranks_document

        return ranks_document(self)
