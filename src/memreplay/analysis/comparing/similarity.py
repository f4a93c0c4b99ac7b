"""Group similar ranks. In similar ranks, the same code holds about the same number of bytes at the
peak.
"""

from __future__ import annotations

from array import array
from statistics import median
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from memreplay.engine.query._vectors import counting, row_distances, vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memreplay.engine.query._vectors import Vector

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
        self.peaks = vector(peaks)
        self.width = 2 + max(column.values(), default=-1)
        points = array("q", bytes(8 * self.width * len(holdings)))
        for row, (one, peak) in enumerate(zip(holdings, peaks, strict=True)):
            for name, held in one.items():
                points[row * self.width + column[name]] += held
            points[(row + 1) * self.width - 1] = peak - sum(one.values())
        self.points = vector(points)

    def distances(self, rank: int, others: Vector) -> list[float]:
        """Return one rank's distances to others: the bytes that differ, as a share of the larger
        peak.
        """
        elsewhere = row_distances(self.points, self.width, rank, others)
        larger = self.peaks[others].higher(self.peaks[rank]).higher(1)
        return [a / b for a, b in zip(elsewhere, larger, strict=True)]

    def groups(self) -> list[SimilarRanks]:
        """Group the ranks, largest group first. Repeatedly, the first ungrouped rank forms a group
        with all ungrouped ranks near it.
        """
        left = counting(len(self.peaks))
        found: list[SimilarRanks] = []
        while len(left) and len(found) < MOST_GROUPS:
            near = self._near(left[0], left)
            found.append(self._alike(left[near]))
            left = left[~near]
        found += [SimilarRanks((at,), at) for at in left]
        return sorted(found, key=lambda one: (-len(one.members), one.members))

    def _near(self, rank: int, others: Vector) -> Vector:
        """Return which of `others` are similar to a rank. A rank is similar to itself."""
        peaks = self.peaks[others]
        # Compare the peaks first, because their difference is a lower bound for the distance and is
        # faster to compute.
        own = self.peaks[rank]
        near = abs(peaks - own) <= peaks.higher(own).scaled(WITHIN)
        distances = self.distances(rank, others[near])
        near[near.rows()] = vector([one <= WITHIN for one in distances], "?")
        return near | (others == rank)

    def _alike(self, members: Vector) -> SimilarRanks:
        by_peak = members[self.peaks[members].order()]
        return SimilarRanks(tuple(members), by_peak[(len(by_peak) - 1) // 2])

    def nearest(self, rank: int, groups: Sequence[SimilarRanks]) -> SimilarRanks:
        """Return the group whose typical member is nearest to a rank; in a tie, the first such
        group.
        """
        distances = self.distances(rank, vector([one.typical for one in groups]))
        return groups[distances.index(min(distances))]


def significant_groups(groups: Sequence[SimilarRanks], ranks: int) -> list[SimilarRanks]:
    """Return the groups with at least two ranks and at least 1% of all ranks. Groups of that size
    are part of the fleet's structure, such as pipeline stages.
    """
    return [one for one in groups if len(one.members) >= max(2, ranks / 100)]


def odd_ranks(likeness: Likeness, groups: Sequence[SimilarRanks]) -> dict[int, int]:
    """Return the ranks that aren't in a large enough group, each with a rank that it should
    resemble: largest difference between the peaks first.
    """
    peaks = list(likeness.peaks)
    if not peaks:
        return {}
    usual = significant_groups(groups, len(peaks))
    if usual:
        inside = {at for group in usual for at in group.members}
        odd = [at for at in range(len(peaks)) if at not in inside]
        typical = {at: likeness.nearest(at, usual).typical for at in odd}
    else:
        middle = sorted(range(len(peaks)), key=lambda at: peaks[at])[(len(peaks) - 1) // 2]
        typical = dict.fromkeys(outlying(peaks), middle)
    order = sorted(typical, key=lambda at: -abs(peaks[at] - peaks[typical[at]]))
    return {at: typical[at] for at in order}


def outlying(peaks: Sequence[int]) -> list[int]:
    """Return the ranks whose peaks are outliers relative to the median and spread. This is used if
    no ranks are similar.
    """
    if len(peaks) < 3:
        return []
    middle = median(peaks)
    off = [abs(peak - middle) for peak in peaks]
    # Scaled median absolute deviation, comparable to a standard deviation.
    usual = 1.4826 * median(off)
    least = max(3.5 * usual, WITHIN * max(middle, 1.0))
    return [at for at, distance in enumerate(off) if distance > least]
