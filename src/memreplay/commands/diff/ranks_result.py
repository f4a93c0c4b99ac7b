"""The results of `memreplay diff` of two folders of rank files."""

from __future__ import annotations

from memreplay.commands.diff.result import Compared, DiffReport
from memreplay.snapshot.model import By, Exactness, Filters, MeasureName, When
from memreplay.snapshot.record import Record


class RankSide(Record, frozen=True):
    """One device of one rank's snapshot at the moment that is compared."""

    file: str
    device: int
    bytes: int
    event_index: int
    time_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


class RankDiff(Record, Compared, frozen=True):
    """One rank in both runs, by the device on which the new run has most.

    `other_devices` are those that either file has beside it.
    """

    rank: int
    base: RankSide
    new: RankSide
    other_devices: tuple[int, ...] = ()


class Spread(Record, frozen=True):
    """How one number lies over the ranks. The median of an even number of ranks is the mean of the
    two in the middle, rounded down; `min_rank` and `max_rank` are the first that have it."""

    min_bytes: int
    min_rank: int
    median_bytes: int
    max_bytes: int
    max_rank: int
    sum_bytes: int

    @property
    def imbalance(self) -> float | None:
        """The maximum by the median; None where that is 0."""
        return self.max_bytes / self.median_bytes if self.median_bytes > 0 else None


class RanksReport(Record, frozen=True):
    """What `memreplay diff` of two folders shows: an entry a rank that both have, in their order.

    `only_base` and `only_new` are the ranks that one folder has alone, `not_read` those of which a
    file could not be read, `unranked` the files whose name has no rank; none of them is compared.
    `detail` is the diff of the one rank `detail_rank`, on its device alone; both are None where
    that rank could not be read. `top` is how many ranks a text shows.
    """

    base_folder: str
    new_folder: str
    measure: MeasureName
    by: By
    when: When
    exact: bool
    ranks: tuple[RankDiff, ...]
    base: Spread
    new: Spread
    change: Spread
    detail_rank: int | None
    detail: DiffReport | None
    only_base: tuple[int, ...] = ()
    only_new: tuple[int, ...] = ()
    not_read: tuple[int, ...] = ()
    unranked: tuple[str, ...] = ()
    filters: Filters | None = None
    top: int = 20
