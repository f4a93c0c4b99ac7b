"""Forward passes whose results stay while others train, as when losses add up without `.item()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from memreplay.analysis.advising.lives import Lives

    Chosen = NDArray[np.bool_]
    Numbers = NDArray[np.int64]
    Stacks = NDArray[np.uint32]

SCALAR = 16  # bytes: a loss, or a sum of losses
# Without a graph a pass keeps only its result. A KV cache keeps two of the ten or more results of a
# layer.
PASS_COUNT, PASS_SHARE = 3, 0.4
LEAST_COUNT = 6
# Part of what is kept. Backward passes differ by less from one step to another; one through the
# kept results would allocate a gradient for each.
DIFFERENCE = 0.25
MOST_CODE = 32  # different passes that are looked at


def outliving(lives: Lives, forward: Chosen, backward: Chosen) -> Chosen:
    """Find what passes keep beyond the next backward pass, which isn't theirs.

    The evidence is another turn of forward and backward passes that trains by the same code and
    has no such pass, and whose backward pass allocates as much.
    """
    found = np.zeros(len(lives), bool)
    if not forward.any() or not backward.any():
        return found
    turns = _Turns(lives, forward, backward)
    kept, run, in_loss = _passes(lives, turns)
    seen: dict[tuple[bytes, bytes], Numbers] = {}
    for turn, members in _by_turn(turns.of, kept):
        several = len(np.unique(run[members])) > 1 or in_loss[members].any()
        trained = turns.trained(turn)
        if len(members) < LEAST_COUNT or not several or not len(trained):
            continue
        stacks = np.unique(lives.stack[members])
        key = stacks.tobytes(), trained.tobytes()
        if key not in seen:
            if len(seen) == MOST_CODE:
                break
            seen[key] = turns.others(stacks, trained)
        others = seen[key]
        size = turns.bytes[turn] - DIFFERENCE * lives.bytes[members].sum()
        count = turns.count[turn] - DIFFERENCE * len(members)
        found[members] = np.any((turns.bytes[others] >= size) & (turns.count[others] >= count))
    return found


class _Turns:
    """Turns of forward and backward allocations: each ends with a backward pass."""

    def __init__(self, lives: Lives, forward: Chosen, backward: Chosen) -> None:
        rows = np.arange(len(lives))
        both = np.flatnonzero(forward | backward)
        anew = backward[both[:-1]] & ~backward[both[1:]]
        self.of: Numbers = np.searchsorted(both[1:][anew], rows, "right")
        """The turn of each allocation."""
        total = int(self.of[-1]) + 1
        chosen = np.flatnonzero(backward)
        first = np.full(total, len(lives))
        last = np.full(total, len(lives))
        np.minimum.at(first, self.of[chosen], chosen)
        last[self.of[chosen]] = chosen  # in order: the last one stays
        self.count: Numbers = np.bincount(self.of[chosen], minlength=total)
        """How many allocations its backward pass makes."""
        self.bytes: Numbers = np.zeros(total, np.int64)
        np.add.at(self.bytes, self.of[chosen], lives.bytes[chosen])
        starts = np.append(lives.start, [lives.events, lives.events])
        begin, end, until = starts[first], starts[last], starts[last + 1]
        self.before: Chosen = forward & (rows < first[self.of])
        """What its forward passes make."""
        self.used: Chosen = self.before & (lives.end > begin[self.of])
        self.used &= lives.end <= until[self.of]
        """What goes with its backward pass."""
        self.stays: Chosen = self.before & (lives.end > until[self.of])
        """What outlives its backward pass."""
        ended = self.of[np.maximum(np.searchsorted(lives.start, lives.end) - 1, 0)]
        inside = forward & (lives.end > begin[ended]) & (lives.end < end[ended])
        self.stays &= ~np.isin(lives.stack, lives.stack[inside | self.used])
        self._stack = lives.stack
        pairs = np.stack([self.of[self.used], lives.stack[self.used].astype(np.int64)])
        self._trained = np.unique(pairs, axis=1)

    def trained(self, turn: int) -> Stacks:
        """The stacks of what goes with its backward pass."""
        low, high = np.searchsorted(self._trained[0], [turn, turn + 1])
        return self._trained[1, low:high].astype(np.uint32)

    def others(self, without: Stacks, trained: Stacks) -> Numbers:
        """The turns that train by such code, and whose forward passes run none of the other."""
        runs = np.isin(self._trained[1], trained)
        count = np.bincount(self._trained[0][runs], minlength=len(self.count))
        count[self.of[self.before & np.isin(self._stack, without)]] = 0
        return np.flatnonzero(count == len(trained))


def _passes(lives: Lives, turns: _Turns) -> tuple[Chosen, Numbers, Chosen]:
    """(what stays of passes that keep much of what they make, the pass of each allocation, whether
    that ends in a loss).

    A loss ends a pass, and so does what is no result of one: the next batch.
    """
    scalar = lives.bytes <= SCALAR
    ends = np.cumsum(scalar | ~turns.before)
    run = np.concatenate([[0], ends[:-1]])
    total = int(run[-1]) + 1
    stays = turns.stays & ~scalar
    if lives.recorded:
        stays &= lives.in_modules()
    count = np.bincount(run[stays], minlength=total)
    held = np.bincount(run[stays], lives.bytes[stays], total)
    made = np.bincount(run[turns.before], lives.bytes[turns.before], total)
    apart = np.bincount(run[turns.used], minlength=total) == 0
    in_loss = np.bincount(run[turns.before & scalar], minlength=total) > 0
    passes = (count >= PASS_COUNT) & (held >= PASS_SHARE * made) & apart
    return stays & passes[run], run, in_loss[run]


def _by_turn(of: Numbers, kept: Chosen) -> Iterator[tuple[int, Numbers]]:
    rows = np.flatnonzero(kept)
    for members in np.split(rows, np.flatnonzero(np.diff(of[rows])) + 1):
        if len(members):
            yield int(of[members[0]]), members
