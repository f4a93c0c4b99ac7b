"""Find forward passes whose results stay live although no backward pass needs them, such as losses
summed without `.item()`, or a teacher that runs without `no_grad()`.
"""

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

SCALAR = 16  # maximum size of a loss or a sum of losses, in bytes
# Without an autograd graph, a pass keeps only its result. A KV cache keeps two of a layer's ten or
# more results.
PASS_COUNT, PASS_SHARE = 3, 0.4
LEAST_COUNT = 6
# As a share of the kept bytes. Backward passes vary less than this between steps, and a backward
# pass through the kept results would allocate a gradient for each result.
DIFFERENCE = 0.25
MOST_CODE = 32  # maximum number of distinct passes
# A backward pass through the kept results would allocate gradients of the same size for most of
# them.
GRADIENTS_SHARE = 0.5
LEAST_TURNS = 2  # minimum number of rounds with the same pass
MOST_ROWS = 20_000_000  # maximum number of allocations to examine


def outliving(lives: Lives, forward: Chosen, backward: Chosen) -> Chosen:
    """Find results that a forward pass keeps beyond the next backward pass, which belongs to
    another forward pass.

    The evidence is another round that trains with the same code but without such a pass. If that
    round's backward pass allocates as much, the kept results don't take part in training.
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
    return found | _unused(lives, turns, backward)


def _unused(lives: Lives, turns: _Turns, backward: Chosen) -> Chosen:
    """Find passes whose results are all freed at once after the backward pass, in several rounds,
    although the backward pass allocated too few gradients of these sizes to have used the results.
    """
    found = np.zeros(len(lives), bool)
    late = turns.late & (lives.bytes > SCALAR)
    if lives.recorded:
        late &= lives.in_modules()
    rows = np.flatnonzero(late)
    made = np.searchsorted(lives.start, lives.end)  # number of rows allocated before each row's end
    rows = rows[np.lexsort((rows, made[rows], turns.of[rows]))]
    apart = (np.diff(turns.of[rows]) != 0) | (np.diff(made[rows]) != 0)
    bounds = np.concatenate([[0], np.flatnonzero(apart) + 1, [len(rows)]])
    passes: dict[bytes, list[Numbers]] = {}
    left = MOST_ROWS
    for i in np.flatnonzero(np.diff(bounds) >= LEAST_COUNT):
        members = rows[bounds[i] : bounds[i + 1]]
        first, last, end = members[0], members[-1] + 1, made[members[0]]
        left -= int(end - first)
        if left < 0:
            break
        results = lives.bytes[first:last][turns.before[first:last]].sum()
        if lives.bytes[members].sum() < PASS_SHARE * results or not len(
            turns.trained(int(turns.of[first]))
        ):
            continue
        sizes, counts = np.unique(lives.bytes[members], return_counts=True)
        gradients = np.sort(lives.bytes[first:end][backward[first:end]])
        there = np.searchsorted(gradients, sizes, "right") - np.searchsorted(gradients, sizes)
        covered = (np.minimum(counts, there) * sizes).sum()
        if covered <= GRADIENTS_SHARE * (counts * sizes).sum():
            passes.setdefault(np.unique(lives.stack[members]).tobytes(), []).append(members)
    for alike in passes.values():
        if len(alike) >= LEAST_TURNS:
            found[np.concatenate(alike)] = True
    return found


class _Turns:
    """Rounds of forward and backward allocations, each ending with a backward pass."""

    def __init__(self, lives: Lives, forward: Chosen, backward: Chosen) -> None:
        rows = np.arange(len(lives))
        both = np.flatnonzero(forward | backward)
        anew = backward[both[:-1]] & ~backward[both[1:]]
        self.of: Numbers = np.searchsorted(both[1:][anew], rows, "right")
        """Round of each allocation."""
        total = int(self.of[-1]) + 1
        chosen = np.flatnonzero(backward)
        first = np.full(total, len(lives))
        last = np.full(total, len(lives))
        np.minimum.at(first, self.of[chosen], chosen)
        last[self.of[chosen]] = chosen  # assigned in order, so the last row of each round remains
        self.count: Numbers = np.bincount(self.of[chosen], minlength=total)
        """Allocations in each round's backward pass."""
        self.bytes: Numbers = np.zeros(total, np.int64)
        np.add.at(self.bytes, self.of[chosen], lives.bytes[chosen])
        starts = np.append(lives.start, [lives.events, lives.events])
        begin, end, until = starts[first], starts[last], starts[last + 1]
        self.before: Chosen = forward & (rows < first[self.of])
        """Allocations of a round's forward passes."""
        self.used: Chosen = self.before & (lives.end > begin[self.of])
        self.used &= lives.end <= until[self.of]
        """Allocations freed by the end of the round's backward pass."""
        self.stays: Chosen = self.before & (lives.end > until[self.of])
        """Allocations that outlive the round's backward pass."""
        ended = self.of[np.maximum(np.searchsorted(lives.start, lives.end) - 1, 0)]
        inside = forward & (lives.end > begin[ended]) & (lives.end < end[ended])
        self.stays &= ~np.isin(lives.stack, lives.stack[inside | self.used])
        self.late: Chosen = self.before & (lives.end > end[self.of])
        self.late &= ~np.isin(lives.stack, lives.stack[inside])
        """Allocations that the round's backward pass doesn't free, and no other one does."""
        self._stack = lives.stack
        pairs = np.stack([self.of[self.used], lives.stack[self.used].astype(np.int64)])
        self._trained = np.unique(pairs, axis=1)

    def trained(self, turn: int) -> Stacks:
        """Return the stacks of forward allocations that a round's backward pass frees."""
        low, high = np.searchsorted(self._trained[0], [turn, turn + 1])
        return self._trained[1, low:high].astype(np.uint32)

    def others(self, without: Stacks, trained: Stacks) -> Numbers:
        """Return the rounds that free allocations of all `trained` stacks, and whose forward passes
        have none of the `without` stacks.
        """
        runs = np.isin(self._trained[1], trained)
        count = np.bincount(self._trained[0][runs], minlength=len(self.count))
        count[self.of[self.before & np.isin(self._stack, without)]] = 0
        return np.flatnonzero(count == len(trained))


def _passes(lives: Lives, turns: _Turns) -> tuple[Chosen, Numbers, Chosen]:
    """Return which rows are kept by passes that keep many of their results, each row's pass, and
    whether the pass ends in a loss.

    A pass ends with a loss, or with something that isn't a result, such as the next batch.
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
