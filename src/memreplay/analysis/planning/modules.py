"""Choose modules to recompute: the cheapest set with which a program fits."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.planning.calls import Recomputing
from memreplay.analysis.planning.program import Effect
from memreplay.engine.query._vectors import joined, zeros

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memreplay.analysis.planning.calls import Call, Notes
    from memreplay.analysis.planning.program import Program
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay

LEAST_SHARE = 0.001  # of the peak; modules that keep less aren't recomputed
MOST_EXHAUSTIVE = 10  # units; above that, sets are improved step by step
FORWARD_SHARE = 1 / 3  # of a step's time, if the recording's times don't show it
_NUMBER = re.compile(r"(.*)\.(\d+)$")


class Unit(NamedTuple):
    """A module that can be recomputed as a whole."""

    name: str
    calls: list[Call]
    effect: Effect
    time_share: float
    """Share of a step's time that its forward passes take."""


class Units:
    """A recording's modules that can be recomputed.

    `measured`: whether the recording's times are from a real run.
    """

    def __init__(self, notes: Notes, replay: Replay, *, measured: bool) -> None:
        self.notes = notes
        self.recomputing = Recomputing(notes)
        self.measured = measured
        least = LEAST_SHARE * notes.lives.peak_bytes
        found = []
        for name, numbers in notes.units().items():
            calls = notes.calls(numbers)
            effect = self.recomputing.effect(name, calls)
            if effect is not None and kept_bytes(notes.lives.bytes, effect) >= least:
                found.append((name, calls, effect))
        shares = self._shares(replay, [calls for _, calls, _ in found])
        self.all = [
            Unit(name, calls, effect, share)
            for (name, calls, effect), share in zip(found, shares, strict=True)
        ]

    def _shares(self, replay: Replay, calls: list[list[Call]]) -> list[float]:
        lives = self.notes.lives
        if self.measured:
            times = self._times(replay, calls)
            if times is not None:
                return times
        # Assume that a module's work is proportional to the bytes it allocates.
        forward = self.notes.forward
        whole = max(lives.bytes[forward].sum(), 1)
        made = joined([[0], lives.bytes.sums()])
        return [
            FORWARD_SHARE * sum(made[one.last + 1] - made[one.first] for one in some) / whole
            for some in calls
        ]

    def _times(self, replay: Replay, calls: list[list[Call]]) -> list[float] | None:
        """Return the units' shares of the time from the first call to the last backward pass."""
        lives, every = self.notes.lives, [one for some in calls for one in some]
        if not every:
            return None
        bounds = [min(lives.start[one.first] for one in every), max(one.until for one in every)]
        first, last = replay.times_us([min(one, replay.events - 1) for one in bounds])
        if first is None or last is None or last <= first:
            return None
        found = []
        for some in calls:
            begins = replay.times_us([lives.start[one.first] for one in some])
            ends = replay.times_us([lives.start[one.last] for one in some])
            spent = sum((end or 0) - (begin or 0) for begin, end in zip(begins, ends, strict=True))
            found.append(max(spent, 0) / (last - first))
        return found

    def effect(self, units: Iterable[Unit]) -> Effect:
        """Return what recomputing these modules changes, except what they hold together."""
        return Effect(again=self.recomputing.shared({one.name: one.calls for one in units}))

    def applied(self, program: Program, units: Sequence[Unit]) -> Program:
        """Return the program that recomputes these modules."""
        for one in units:
            program = program.with_effect(one.effect)
        return program.with_effect(self.effect(units))

    def smallest(self, program: Program, limit: int) -> tuple[Unit, ...] | None:
        """Return the cheapest set of modules with which the program's peak is at most `limit`; None
        if there is no such set.
        """
        return next(self.sets(program, limit), None)

    def sets(self, program: Program, limit: int) -> Iterator[tuple[Unit, ...]]:
        """Yield sets of modules with which the program's peak is at most `limit`, cheapest first:
        all of them, or with many modules only one.
        """
        peaks = Peaks(program, self.all)
        everything = tuple(range(len(self.all)))
        if not everything or peaks.of(everything) > limit:
            return
        if len(self.all) > MOST_EXHAUSTIVE or peaks.rows << len(self.all) > 1 << 26:
            found = iter([self._reduced(peaks, everything, limit)])
        else:
            every = (some for n in range(len(self.all) + 1) for some in combinations(everything, n))
            found = (some for some in sorted(every, key=self.cost) if peaks.of(some) <= limit)
        for some in found:
            yield tuple(self.all[at] for at in some)

    def cost(self, chosen: Iterable[int]) -> tuple[float, int]:
        """Return a set's cost: its time, then its number of modules."""
        some = list(chosen)
        return round(sum(self.all[at].time_share for at in some), 6), len(some)

    def _reduced(self, peaks: Peaks, chosen: tuple[int, ...], limit: int) -> tuple[int, ...]:
        """Leave out modules, the most expensive ones first, as long as the rest is enough."""
        # Of equal modules, the last ones save least: their results are needed first.
        order = sorted(chosen, key=lambda at: (-self.all[at].time_share, -at))
        left = 0
        while left != len(chosen):
            left = len(chosen)
            for at in order:
                rest = tuple(one for one in chosen if one != at)
                if len(rest) < len(chosen) and peaks.of(rest) <= limit:
                    chosen = rest
        return chosen


class Peaks:
    """Computes a program's peak with sets of recomputed modules.

    Only the events at which any module changes something matter; between them, the highest level
    counts.
    """

    def __init__(self, program: Program, units: Sequence[Unit]) -> None:
        lives = program.lives
        levels = program.levels()
        parts = [_Part.of(program, one.effect) for one in units]
        failed = program.failed
        points = joined(
            [
                [0],
                failed,
                failed + 1,
                *(one.at for one in parts),
                *((one.made - 1) for one in parts),
            ]
        ).distinct()
        points = points[(points >= 0) & (points < lives.events)]
        self.rows = len(points)
        self._start = lives.start_bytes
        self._levels = levels[levels.extremes(points)[1]]
        if len(failed):
            at = points.places(failed)
            self._levels = self._levels.copy()
            self._levels[at] = self._levels[at].higher(levels[failed] + program.requests)
        self._parts = [one.on(points) for one in parts]

    def of(self, chosen: Iterable[int]) -> int:
        """Return the peak with these modules."""
        change = zeros(self.rows + 1)
        some = [self._parts[at] for at in chosen]
        for one in some:
            change.add_at(one.at, one.weights)
        levels = self._levels + change[:-1].sums()
        high = max(levels.max(initial=0), self._start)
        for one in some:
            if len(one.before):
                high = max(high, (levels[one.before] + one.rises).max())
        return high


class _Part(NamedTuple):
    """How one module's recomputation changes levels."""

    at: Vector
    weights: Vector
    made: Vector
    """The events before which it's recomputed."""
    before: Vector
    rises: Vector
    """How far levels rise while it's recomputed, from those `before`."""

    @classmethod
    def of(cls, program: Program, effect: Effect) -> _Part:
        lives, again = program.lives, effect.again
        assert again is not None
        weights = program.weights(again)
        ended, sizes = effect.ended, program.sizes[effect.ended]
        made = again.at.distinct()
        sums = joined([[0], weights.sums()])
        firsts = again.at.places(made)
        highest = sums[1:].extremes(firsts)[1] if len(made) else made
        rises = sums[1:][highest] - sums[firsts] if len(made) else made
        high = (rises > 0).rows()
        return cls(
            joined([again.at, effect.ends, lives.end[ended]]),
            joined([weights, -sizes, sizes]),
            made[high],
            made[high],
            rises[high],
        )

    def on(self, points: Vector) -> _Part:
        """Return the part with places among `points` for events."""
        return self._replace(at=points.places(self.at), before=points.places(self.made - 1))


def kept_bytes(sizes: Vector, effect: Effect) -> int:
    """Return how many bytes a module keeps for its backward passes, in all calls together."""
    assert effect.again is not None
    owner, makes = effect.again.owner, effect.again.makes
    first = owner[(makes == 0) & (owner < len(sizes))]
    return sizes[first].sum() + sizes[effect.ended].sum()


def argument(names: Sequence[str], every: Sequence[str]) -> str:
    """Return a pattern for these of all modules, as in `dryrun --change checkpoint=`."""
    found: list[str] = []
    left = list(names)
    lists: dict[str, list[str]] = {}
    for name in every:
        match = _NUMBER.fullmatch(name)
        if match:
            lists.setdefault(match[1], []).append(name)
    for prefix, members in lists.items():
        mine = [at for at, name in enumerate(members) if name in left]
        if len(mine) < 2:
            continue
        pattern = _sliced(mine, len(members))
        if pattern is not None:
            found.append(f"{prefix}.*{pattern}")
            left = [name for name in left if name not in members]
    return ",".join([*found, *left])


def _sliced(mine: list[int], count: int) -> str | None:
    """Return a slice with these of `count` places; "" for all, None if no slice has them."""
    first, last = mine[0], mine[-1]
    step = mine[1] - mine[0]
    if mine != list(range(first, last + 1, step)):
        return None
    begin = str(first) if first else ""
    end = "" if last + step >= count else str(last + 1)
    if not begin and not end and step == 1:
        return ""
    return f"[{begin}:{end}]" if step == 1 else f"[{begin}:{end}:{step}]"


def without_title(name: str) -> str:
    """Return a module's name as in named_modules(), without the model's class."""
    return name.partition(".")[2] or name
