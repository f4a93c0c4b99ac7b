"""The spread of a number over ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence


class Spread(Record, frozen=True, kw_only=True):
    """Spread of a number over the ranks."""

    min_bytes: int
    """Minimum."""
    min_rank: int
    """First rank with the minimum."""
    median_bytes: int
    """Median; for an even number of ranks, the mean of the middle two, rounded down."""
    max_bytes: int
    """Maximum."""
    max_rank: int
    """First rank with the maximum."""
    sum_bytes: int
    """Sum over all ranks."""
    imbalance: float | UnsetType | None = UNSET
    """For a run: `max_bytes` / `median_bytes`; null if the median is 0."""


def run_spread(ranks: Sequence[int], n_bytes: Sequence[int]) -> Spread:
    """Return the spread of a run's peaks over its ranks. At least one rank is required."""
    found = spread_of(ranks, n_bytes)
    half = found.median_bytes
    return replace(found, imbalance=found.max_bytes / half if half > 0 else None)


def spread_of(ranks: Sequence[int], n_bytes: Sequence[int]) -> Spread:
    """Return the spread of a number over ranks. At least one rank is required."""
    rows = sorted(zip(n_bytes, ranks, strict=True))
    half = len(rows) // 2
    middle = [rows[half][0]] if len(rows) % 2 else [rows[half - 1][0], rows[half][0]]
    most = rows[-1][0]
    return Spread(
        min_bytes=rows[0][0],
        min_rank=rows[0][1],
        median_bytes=sum(middle) // len(middle),
        max_bytes=most,
        max_rank=next(rank for one, rank in rows if one == most),
        sum_bytes=sum(n_bytes),
    )
