"""Group similar ranks. In similar ranks, the same code holds about the same number of bytes at the
peak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Holdings = Mapping[str, int]
    """Bytes per call site at a peak."""

WITHIN = 0.05  # similar ranks differ by at most this share of the larger peak
MOST_GROUPS = 128  # maximum number of groups; remaining ranks stay ungrouped
# The largest call sites over all ranks have one column each. The other call sites share the
# remaining columns, by a hash of their names.
OWN_COLUMNS, SHARED_COLUMNS = 256, 256


class SimilarRanks(NamedTuple):
    """The indices of similar ranks, in order, and the index of the rank with the median peak among
    them.
    """

    members: tuple[int, ...]
    typical: int


class Likeness:
    """A fleet's ranks as vectors of bytes per call site.

    `peaks` can exceed the sum of the call sites; the difference is treated as one more call site.
    """

    def __init__(self, holdings: Sequence[Holdings], peaks: Sequence[int]) -> None:
        totals: dict[str, int] = {}
        for one in holdings:
            for name, held in one.items():
                totals[name] = totals.get(name, 0) + held
        largest = sorted(totals, key=lambda name: (-totals[name], name))
        column = {
            name: at if at < OWN_COLUMNS else OWN_COLUMNS + crc32(name.encode()) % SHARED_COLUMNS
            for at, name in enumerate(largest)
        }
        self.peaks = np.array(peaks, dtype=np.float64)
        columns = 1 + max(column.values(), default=-1)
        self.points: NDArray[np.float64] = np.zeros((len(holdings), columns + 1))
        for row, one in enumerate(holdings):
            for name, held in one.items():
                self.points[row, column[name]] += held
        self.points[:, -1] = self.peaks - self.points[:, :-1].sum(axis=1)

    def distances(self, rank: int, others: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return one rank's distances to others: the bytes that differ, as a share of the larger
        peak.
        """
        elsewhere = np.abs(self.points[others] - self.points[rank]).sum(axis=1)
        larger = np.maximum(self.peaks[others], self.peaks[rank])
        found: NDArray[np.float64] = elsewhere / np.maximum(larger, 1.0)
        return found

    def groups(self) -> list[SimilarRanks]:
        """Group the ranks, largest group first. Repeatedly, the first ungrouped rank forms a group
        with all ungrouped ranks near it.
        """
        left = np.arange(len(self.peaks))
        found: list[SimilarRanks] = []
        while len(left) and len(found) < MOST_GROUPS:
            near = self._near(int(left[0]), left)
            found.append(self._alike(left[near]))
            left = left[~near]
        found += [SimilarRanks((at,), at) for at in left.tolist()]
        return sorted(found, key=lambda one: (-len(one.members), one.members))

    def _near(self, rank: int, others: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of `others` are similar to a rank. A rank is similar to itself."""
        peaks = self.peaks[others]
        # Compare the peaks first, because their difference is a lower bound for the distance and is
        # faster to compute.
        near: NDArray[np.bool_] = np.abs(peaks - self.peaks[rank]) <= WITHIN * np.maximum(
            peaks, self.peaks[rank]
        )
        near[near] = self.distances(rank, others[near]) <= WITHIN
        near |= others == rank
        return near

    def _alike(self, members: NDArray[np.intp]) -> SimilarRanks:
        by_peak = members[np.argsort(self.peaks[members], kind="stable")]
        typical = int(by_peak[(len(by_peak) - 1) // 2])
        return SimilarRanks(tuple(members.tolist()), typical)

    def nearest(self, rank: int, groups: Sequence[SimilarRanks]) -> SimilarRanks:
        """Return the group whose typical member is nearest to a rank; in a tie, the first such
        group.
        """
        typical = np.array([one.typical for one in groups], dtype=np.intp)
        return groups[int(np.argmin(self.distances(rank, typical)))]


def significant_groups(groups: Sequence[SimilarRanks], ranks: int) -> list[SimilarRanks]:
    """Return the groups with at least two ranks and at least 1% of all ranks. Groups of that size
    are part of the fleet's structure, such as pipeline stages.
    """
    return [one for one in groups if len(one.members) >= max(2, ranks / 100)]


def outlying(peaks: Sequence[int]) -> list[int]:
    """Return the ranks whose peaks are outliers relative to the median and spread. This is used if
    no ranks are similar.
    """
    if len(peaks) < 3:
        return []
    found = np.array(peaks, dtype=np.float64)
    middle = float(np.median(found))
    off = np.abs(found - middle)
    # Scaled median absolute deviation, comparable to a standard deviation.
    usual = 1.4826 * float(np.median(off))
    is_far = (off > 3.5 * usual) & (off > WITHIN * max(middle, 1.0))
    return [at for at, far in enumerate(is_far.tolist()) if far]
