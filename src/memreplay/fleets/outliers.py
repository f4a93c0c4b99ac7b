"""Find the ranks that differ from the ranks they should resemble, and explain the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.comparing.similarity import Likeness, SimilarRanks, odd_ranks
from memreplay.fleets.result import HolderChange, Outlier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memreplay.analysis.comparing.records import DiffRow

CHANGES = 5  # maximum number of call sites to show for a group or outlier
EXPLAINED = 8  # maximum number of outliers to explain, which reads their files again


class Pair(NamedTuple):
    """Two files to compare, and a device in each."""

    base: str
    base_device: int
    new: str
    new_device: int


class Explained(NamedTuple):
    """The call sites that explain the difference between two files, or why these are unknown."""

    rows: tuple[DiffRow, ...] = ()
    error: str | None = None


class Member(NamedTuple):
    """A rank to compare with the others: the device with its highest peak."""

    rank: int
    file: str
    device: int
    peak_bytes: int
    holders: Mapping[str, int]
    """Bytes of the largest call sites at the peak."""


class Alike(NamedTuple):
    """The members' similarity, and the groups of similar ones."""

    likeness: Likeness
    groups: list[SimilarRanks]


def alike(members: Sequence[Member]) -> Alike:
    """Group the members."""
    likeness = Likeness([one.holders for one in members], [one.peak_bytes for one in members])
    return Alike(likeness, likeness.groups())


def outliers(
    members: Sequence[Member],
    found: Alike,
    explain: Callable[[Sequence[Pair]], Sequence[Explained]] | None = None,
) -> tuple[Outlier, ...]:
    """Return the ranks that aren't in a large enough group, each with a rank that it should
    resemble: largest difference between the peaks first. `explain` is called to compare pairs of
    files.
    """
    typical = odd_ranks(*found)
    odd = list(typical)
    pairs = [pair_of(members[typical[at]], members[at]) for at in odd[:EXPLAINED]]
    why = list(explain(pairs)) if explain and pairs else []
    why += [Explained()] * (len(odd) - len(why))
    return tuple(
        Outlier(
            rank=members[at].rank,
            typical_rank=members[typical[at]].rank,
            peak_bytes=members[at].peak_bytes,
            typical_bytes=members[typical[at]].peak_bytes,
            change_bytes=members[at].peak_bytes - members[typical[at]].peak_bytes,
            rows=told_why.rows,
            error=told_why.error,
        )
        for at, told_why in zip(odd, why, strict=True)
    )


def pair_of(base: Member, new: Member) -> Pair:
    """Return two members' files and devices, to compare them."""
    return Pair(base.file, base.device, new.file, new.device)


def holder_changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[HolderChange, ...]:
    """Compare two members' largest call sites: largest change first."""
    changes = [
        HolderChange(label, before.get(label, 0), after.get(label, 0))
        for label in dict.fromkeys((*after, *before))
        if before.get(label, 0) != after.get(label, 0)
    ]
    changes.sort(key=lambda one: (-abs(one.new_bytes - one.base_bytes), one.label))
    return tuple(changes[:CHANGES])
