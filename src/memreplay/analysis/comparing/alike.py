"""Which ranks are alike: those whose peaks are held by the same code, in about the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Holdings = Mapping[str, int]
    """What each piece of code holds at a peak, in bytes."""

WITHIN = 0.05  # of the larger peak: so much may lie elsewhere in ranks that are alike
MOST_GROUPS = 128  # what comes after these is alone
# Pieces of code that have a column of their own, the largest over all ranks; the others share as
# many as these, by their names.
OWN_COLUMNS, SHARED_COLUMNS = 256, 256


class Alike(NamedTuple):
    """Ranks that are alike, by their places: in their order, and the one with the median peak."""

    members: tuple[int, ...]
    typical: int


class Likeness:
    """The ranks of a fleet as points: bytes by code. `peaks` may be more than what is held by the
    code that is named; the rest counts as a piece of code of its own."""

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
        """From one to others: the bytes that lie elsewhere, as a part of the larger peak."""
        elsewhere = np.abs(self.points[others] - self.points[rank]).sum(axis=1)
        larger = np.maximum(self.peaks[others], self.peaks[rank])
        found: NDArray[np.float64] = elsewhere / np.maximum(larger, 1.0)
        return found

    def groups(self) -> list[Alike]:
        """All of them in groups, the largest first. The first that is in no group yet makes one of
        all that are near to it."""
        left = np.arange(len(self.peaks))
        found: list[Alike] = []
        while len(left) and len(found) < MOST_GROUPS:
            near = self._near(int(left[0]), left)
            found.append(self._alike(left[near]))
            left = left[~near]
        found += [Alike((at,), at) for at in left.tolist()]
        return sorted(found, key=lambda one: (-len(one.members), one.members))

    def _near(self, rank: int, others: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of others are alike, itself among them."""
        peaks = self.peaks[others]
        # What their peaks differ by lies elsewhere at least, and takes less to find.
        near: NDArray[np.bool_] = np.abs(peaks - self.peaks[rank]) <= WITHIN * np.maximum(
            peaks, self.peaks[rank]
        )
        near[near] = self.distances(rank, others[near]) <= WITHIN
        near |= others == rank
        return near

    def _alike(self, members: NDArray[np.intp]) -> Alike:
        by_peak = members[np.argsort(self.peaks[members], kind="stable")]
        typical = int(by_peak[(len(by_peak) - 1) // 2])
        return Alike(tuple(members.tolist()), typical)

    def nearest(self, rank: int, groups: Sequence[Alike]) -> Alike:
        """The group whose typical member is nearest; of equally near ones the first."""
        typical = np.array([one.typical for one in groups], dtype=np.intp)
        return groups[int(np.argmin(self.distances(rank, typical)))]


def of_some_size(groups: Sequence[Alike], ranks: int) -> list[Alike]:
    """Those of so many ranks that they are a part of the fleet (a pipeline stage, experts), and no
    chance: two at least, and one in a hundred."""
    return [one for one in groups if len(one.members) >= max(2, ranks / 100)]


def far_off(peaks: Sequence[int]) -> list[int]:
    """Where no ranks are alike: those whose peak is far from the median, for how the others lie."""
    if len(peaks) < 3:
        return []
    found = np.array(peaks, dtype=np.float64)
    middle = float(np.median(found))
    off = np.abs(found - middle)
    # What is usual, as a normal distribution's deviation: the median of what they are off by.
    usual = 1.4826 * float(np.median(off))
    is_far = (off > 3.5 * usual) & (off > WITHIN * max(middle, 1.0))
    return [at for at, far in enumerate(is_far.tolist()) if far]
