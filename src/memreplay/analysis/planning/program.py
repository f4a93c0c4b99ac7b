"""A recorded program with changes: sizes, earlier frees, and allocations that it makes again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.engine.query._vectors import chosen, constant, counting, joined, vector, zeros
from memreplay.engine.simulate import _simulating
from memreplay.snapshot.recorded_allocator import Edit

if TYPE_CHECKING:
    from memreplay.analysis.advising.lives import Lives
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay


class Again(NamedTuple):
    """Calls that a changed program makes in addition, in order, as when it recomputes a module.

    Each happens before the event `at`. It allocates (`makes`) or frees the memory of an owner: a
    row of `Lives` or, from the number of rows on, an addition that is like the row `like`.
    """

    at: Vector
    owner: Vector
    makes: Vector
    like: Vector

    @classmethod
    def none(cls) -> Again:
        """Return no calls."""
        return cls(*(vector([]) for _ in range(4)))


class Effect(NamedTuple):
    """A lever's changes: sizes, ends and additional calls."""

    rows: Vector = vector([])
    """Rows (ascending) whose sizes change."""
    sizes: Vector = vector([])
    """Their new sizes; 0 if they aren't allocated."""
    ended: Vector = vector([])
    """Rows (ascending) that are freed earlier."""
    ends: Vector = vector([])
    """The events before which they're freed."""
    again: Again | None = None
    added: Vector | None = None
    """The additions' sizes; None if they have those of the rows that they're like."""

    @property
    def changes(self) -> bool:
        """Whether the effect changes anything."""
        return bool(len(self.rows) or len(self.ended) or (self.again and len(self.again.at)))


def resized(lives: Lives, chosen: Vector, factor: float) -> Effect:
    """Return the effect of multiplying the chosen rows' sizes."""
    rows = chosen.rows()
    sizes = lives.bytes[rows].scaled(factor)
    return Effect(rows=rows, sizes=sizes.higher(1) if factor else sizes)


class Program:
    """A recorded program with effects applied.

    `failed`, `requests`: events and bytes of requests that failed in the recording. The changed
    program must be able to make them.
    """

    def __init__(self, lives: Lives, failed: Vector, requests: Vector) -> None:
        self.lives = lives
        self.failed, self.requests = failed, requests
        self.sizes = lives.bytes
        self.ends = lives.end
        self.again: tuple[tuple[Again, Vector | None], ...] = ()
        self._levels: Vector | None = None

    def with_effect(self, effect: Effect) -> Program:
        """Return this program with another effect. Sizes are relative to the recording's."""
        found = Program(self.lives, self.failed, self.requests)
        found.sizes, found.ends, found.again = self.sizes, self.ends, self.again
        if len(effect.rows):
            found.sizes = self.sizes.copy()
            now, before = self.sizes[effect.rows], self.lives.bytes[effect.rows]
            # Two effects on the same row: the smaller size.
            same = now == before
            found.sizes[effect.rows] = chosen(same, effect.sizes, now.lower(effect.sizes))
        if len(effect.ended):
            found.ends = self.ends.copy()
            found.ends[effect.ended] = self.ends[effect.ended].lower(effect.ends)
        if effect.again is not None:
            found.again = (*self.again, (effect.again, effect.added))
        return found

    def levels(self) -> Vector:
        """Return the requested bytes after each event."""
        if self._levels is None:
            lives = self.lives
            change = zeros(lives.events + 1)
            change.add_at(lives.start, self.sizes - lives.bytes)
            change.add_at(lives.end, lives.bytes)
            change.add_at(self.ends, -self.sizes)
            for again, added in self.again:
                change.add_at(again.at, self.weights(again, added))
            self._levels = lives.curve + change[:-1].sums()
        return self._levels

    def weights(self, again: Again, added: Vector | None = None) -> Vector:
        """Return how many bytes each additional call adds. `added`: the additions' sizes."""
        added = self.sizes[again.like] if added is None else added
        sizes = joined([self.sizes, added])[again.owner]
        return sizes * (again.makes * 2 - 1)

    def peak(self) -> int:
        """Return the peak of requested bytes, including requests that failed."""
        levels = self.levels()
        high = max(levels.max(initial=0), self.lives.start_bytes)
        if len(self.failed):
            high = max(high, (levels[self.failed] + self.requests).max(initial=0))
        earlier = (self.ends < self.lives.end).rows()
        parts = [(self.ends[earlier], -self.sizes[earlier])]
        parts += [(again.at, self.weights(again, added)) for again, added in self.again]
        at, weights = (joined(part) for part in zip(*parts, strict=True))
        order = at.order()
        return max(high, rise(levels, at[order], weights[order]))

    def edit(self, replay: Replay) -> Edit:
        """Return the change for a simulation."""
        lives, events = self.lives, self.lives.events
        sizes = constant(-1, events).copy()
        resized = (self.sizes != lives.bytes).rows()
        sizes[lives.start[resized]] = self.sizes[resized]
        earlier = (self.ends < lives.end).rows()
        at = [self.ends[earlier]]
        owner = [lives.start[earlier]]
        makes = [zeros(len(earlier))]
        like: list[Vector] = []
        sized: list[Vector] = []
        count = 0
        for again, added in self.again:
            owners = joined([lives.start, events + count + counting(len(again.like))])
            there = (self.weights(again, added) != 0).rows()
            at.append(again.at[there])
            owner.append(owners[again.owner[there]])
            makes.append(again.makes[there])
            like.append(again.like)
            sized.append(self.sizes[again.like] if added is None else added)
            count += len(again.like)
        when = joined(at)
        order = when.order()
        rows = joined(like)
        columns = (
            sizes,
            when[order],
            joined(owner)[order],
            joined(makes)[order],
            lives.start[rows],
            joined(sized).higher(1),
        )
        changed = _simulating.Changed(replay.holding, *(one.as_format("q") for one in columns))
        return Edit(None, changed=changed)


def rise(levels: Vector, at: Vector, weights: Vector) -> int:
    """Return the highest level during the additional calls, which are in the order of `at`.
    `levels` includes them.
    """
    if not len(at):
        return 0
    sums = joined([[0], weights.sums()])
    before = levels[(at - 1).higher(0)] - sums[at.places(at)]
    return (before + sums[1:]).max()
