"""Find forward passes whose results stay live although no backward pass needs them, such as losses
summed without `.item()`, or a teacher that runs without `no_grad()`.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from memreplay.engine.query._vectors import constant, counting, joined, zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.analysis.advising.lives import Lives
    from memreplay.engine.query._vectors import Vector

    Chosen = Vector
    Numbers = Vector
    Stacks = Vector

_STACK_BITS = 32
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
    found = zeros(len(lives), "?")
    if not forward.any() or not backward.any():
        return found
    turns = _Turns(lives, forward, backward)
    kept, run, in_loss = _passes(lives, turns)
    seen: dict[tuple[bytes, bytes], Numbers] = {}
    for turn, members in _by_turn(turns.of, kept):
        several = len(run[members].distinct()) > 1 or in_loss[members].any()
        trained = turns.trained(turn)
        if len(members) < LEAST_COUNT or not several or not len(trained):
            continue
        stacks = lives.stack[members].distinct()
        key = bytes(stacks), bytes(trained)
        if key not in seen:
            if len(seen) == MOST_CODE:
                break
            seen[key] = turns.others(stacks, trained)
        others = seen[key]
        size = ceil(turns.bytes[turn] - DIFFERENCE * lives.bytes[members].sum())
        count = ceil(turns.count[turn] - DIFFERENCE * len(members))
        found[members] = ((turns.bytes[others] >= size) & (turns.count[others] >= count)).any()
    return found | _unused(lives, turns, backward)


def _unused(lives: Lives, turns: _Turns, backward: Chosen) -> Chosen:
    """Find passes whose results are all freed at once after the backward pass, in several rounds,
    although the backward pass allocated too few gradients of these sizes to have used the results.
    """
    found = zeros(len(lives), "?")
    late = turns.late & (lives.bytes > SCALAR)
    if lives.recorded:
        late &= lives.in_modules()
    rows = late.rows()
    made = lives.start.places(lives.end)  # number of rows allocated before each row's end
    rows = rows[made[rows].order()]
    rows = rows[turns.of[rows].order()]
    apart = _changes(turns.of[rows]) | _changes(made[rows])
    bounds = joined([[0], apart.rows() + 1, [len(rows)]])
    passes: dict[bytes, list[Numbers]] = {}
    left = MOST_ROWS
    for i in (bounds[1:] - bounds[:-1] >= LEAST_COUNT).rows():
        members = rows[bounds[i] : bounds[i + 1]]
        first, last, end = members[0], members[-1] + 1, made[members[0]]
        left -= end - first
        if left < 0:
            break
        results = lives.bytes[first:last][turns.before[first:last]].sum()
        if lives.bytes[members].sum() < PASS_SHARE * results or not len(
            turns.trained(turns.of[first])
        ):
            continue
        sizes, places = lives.bytes[members].numbered()
        counts = places.counts()
        gradients = lives.bytes[first:end][backward[first:end]].sorted()
        there = gradients.places(sizes, right=True) - gradients.places(sizes)
        covered = (counts.lower(there) * sizes).sum()
        if covered <= GRADIENTS_SHARE * (counts * sizes).sum():
            passes.setdefault(bytes(lives.stack[members].distinct()), []).append(members)
    for alike in passes.values():
        if len(alike) >= LEAST_TURNS:
            found[joined(alike)] = True
    return found


class _Turns:
    """Rounds of forward and backward allocations, each ending with a backward pass."""

    def __init__(self, lives: Lives, forward: Chosen, backward: Chosen) -> None:
        rows = counting(len(lives))
        both = (forward | backward).rows()
        anew = backward[both[:-1]] & ~backward[both[1:]]
        self.of: Numbers = both[1:][anew].places(rows, right=True)
        """Round of each allocation."""
        total = self.of[-1] + 1
        chosen = backward.rows()
        first, last = constant(len(lives), total).copy(), constant(len(lives), total).copy()
        # Assigned in order, so the last value of each round remains.
        last[self.of[chosen]] = chosen
        first[self.of[chosen][::-1]] = chosen[::-1]
        self.count: Numbers = self.of[chosen].counts(total)
        """Allocations in each round's backward pass."""
        self.bytes = _sums(self.of[chosen], lives.bytes[chosen], total)
        starts = joined([lives.start, [lives.events, lives.events]])
        begin, end, until = starts[first], starts[last], starts[last + 1]
        self.before: Chosen = forward & (rows < first[self.of])
        """Allocations of a round's forward passes."""
        self.used: Chosen = self.before & (lives.end > begin[self.of])
        self.used &= lives.end <= until[self.of]
        """Allocations freed by the end of the round's backward pass."""
        self.stays: Chosen = self.before & (lives.end > until[self.of])
        """Allocations that outlive the round's backward pass."""
        ended = self.of[(lives.start.places(lives.end) - 1).higher(0)]
        inside = forward & (lives.end > begin[ended]) & (lives.end < end[ended])
        self.stays &= ~lives.stack.is_in(lives.stack[inside | self.used])
        self.late: Chosen = self.before & (lives.end > end[self.of])
        self.late &= ~lives.stack.is_in(lives.stack[inside])
        """Allocations that the round's backward pass doesn't free, and no other one does."""
        self._stack = lives.stack
        pairs = ((self.of[self.used] << _STACK_BITS) | lives.stack[self.used]).distinct()
        self._trained = pairs >> _STACK_BITS, pairs & ((1 << _STACK_BITS) - 1)

    def trained(self, turn: int) -> Stacks:
        """Return the stacks of forward allocations that a round's backward pass frees."""
        low, high = self._trained[0].places([turn, turn + 1])
        return self._trained[1][low:high]

    def others(self, without: Stacks, trained: Stacks) -> Numbers:
        """Return the rounds that free allocations of all `trained` stacks, and whose forward passes
        have none of the `without` stacks.
        """
        runs = self._trained[1].is_in(trained)
        count = self._trained[0][runs].counts(len(self.count))
        count[self.of[self.before & self._stack.is_in(without)]] = 0
        return (count == len(trained)).rows()


def _passes(lives: Lives, turns: _Turns) -> tuple[Chosen, Numbers, Chosen]:
    """Return which rows are kept by passes that keep many of their results, each row's pass, and
    whether the pass ends in a loss.

    A pass ends with a loss, or with something that isn't a result, such as the next batch.
    """
    scalar = lives.bytes <= SCALAR
    run = joined([[0], (scalar | ~turns.before).sums()[:-1]], "I")
    total = run[-1] + 1
    stays = turns.stays & ~scalar
    if lives.recorded:
        stays &= lives.in_modules()
    count = run[stays].counts(total)
    held = _sums(run[stays], lives.bytes[stays], total)
    made = _sums(run[turns.before], lives.bytes[turns.before], total)
    apart = run[turns.used].counts(total) == 0
    in_loss = run[turns.before & scalar].counts(total) > 0
    passes = (count >= PASS_COUNT) & held.reaches(PASS_SHARE, made) & apart
    return stays & passes[run], run, in_loss[run]


def _by_turn(of: Numbers, kept: Chosen) -> Iterator[tuple[int, Numbers]]:
    rows = kept.rows()
    bounds = [0, *(_changes(of[rows]).rows() + 1), len(rows)]
    for first, end in pairwise(bounds):
        if end > first:
            yield of[rows[first]], rows[first:end]


def _changes(numbers: Numbers) -> Chosen:
    """Return which numbers differ from the next one."""
    return numbers[1:] != numbers[:-1]


def _sums(numbers: Numbers, values: Numbers, least: int) -> Numbers:
    """Return the sum of the values for each number from 0 to `least` - 1."""
    found = zeros(least)
    found.add_at(numbers, values)
    return found
