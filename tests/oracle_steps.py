"""Compute how steps affect memory with slow, simple code: sums per step, and each group's bytes
when steps end. It uses the lifetimes from tests/oracle.py, and applies the rule in docs/leaks.md
literally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, factorial, prod, sqrt
from statistics import median

from tests.oracle import Lifetime, OracleReplay


@dataclass
class StepSum:
    """A step's peak (including the level before the step), when the peak was reached, the level at
    the step's end, and the step's allocations.
    """

    peak: int
    peak_at: int
    end: int
    allocations: int
    allocated: int


def level(replay: OracleReplay, event: int) -> int:
    """Return the usage after an event; -1 is the start."""
    return replay.usage[event] if event >= 0 else replay.carried_over_bytes


def step_sums(replay: OracleReplay, spans: Sequence[tuple[int, int]]) -> list[StepSum]:
    """Return a StepSum for each span of events; `stop` is excluded."""
    found = []
    for first, stop in spans:
        levels = [(level(replay, at), -at) for at in range(first - 1, stop)]
        peak, at = max(levels)
        made = [one for one in replay.lifetimes if first <= one.alloc_index < stop]
        allocated = sum(one.size for one in made)
        found.append(StepSum(peak, -at, level(replay, stop - 1), len(made), allocated))
    return found


def series_of(
    replay: OracleReplay, moments: Sequence[int], group_of: Callable[[Lifetime], object]
) -> dict[object, list[int]]:
    """Return each group's live bytes after each of these events."""
    series: dict[object, list[int]] = {}
    for k, moment in enumerate(moments):
        for one in replay.live_at(moment):
            series.setdefault(group_of(one), [0] * len(moments))[k] += one.size
    return series


def key_of(one: Lifetime) -> tuple[object, ...] | None:
    """Return an allocation's stack; None for a carried-over one without a stack."""
    return None if one.alloc_index == -1 and not one.frames else one.frames


def old(replay: OracleReplay, moments: Sequence[int], warm: int, age: int) -> list[Lifetime]:
    """Return the allocations that were made after the warm-up and are still live at the last step
    end, at least `age` step ends later.
    """
    found = []
    for one in replay.live_at(moments[-1]):
        first = next(k for k, moment in enumerate(moments) if moment >= one.alloc_index)
        if first > warm and len(moments) - 1 - first >= age:
            found.append(one)
    return found


@dataclass
class Judged:
    """The verdict on a series: bytes leaked per step (0 if it doesn't leak), and the odds (to one)
    that it leaks.
    """

    rate: int
    error: int
    odds: float
    since: int
    rises: int
    stayed: int
    stopped: bool


def judge(values: Sequence[int], warm: int, least: int) -> Judged:
    """Apply the rule in docs/leaks.md to a start value and one value per step."""
    steps = len(values) - 1
    cuts = cuts_of(steps, warm)
    last = values[cuts[3] :] if steps - warm >= 4 else values[-1:]
    stayed = min(last) - values[0]
    stopped = steps - warm >= 4 and max(last) - min(last) <= stayed
    found, error, most, since = 0.0, 0.0, 0.0, warm
    for cut in cuts[:4]:
        if cut == cuts[0] or (steps - cut >= 12 and begins(values, warm, cut)):
            odds, rate, wrong = leak_after(values, warm, cut)
            most = max(most, odds if rate > 0 else 0.0)
            if odds >= LEAST_ODDS and rate > 0 and rate >= least:
                found, error, most, since, stopped = rate, wrong, odds, cut, False
                break
    rises = sum(values[k] > values[k - 1] for k in range(since + 1, steps + 1))
    return Judged(int(found + 0.5), int(error + 0.5), most, since, rises, stayed, stopped)


def cuts_of(steps: int, since: int) -> list[int]:
    """Return where each quarter of the later steps starts, and where the last quarter ends."""
    return [since + (steps - since) * q // 4 for q in range(5)]


def begins(values: Sequence[int], warm: int, since: int) -> bool:
    """Return whether growth may have started at step `since`."""
    steps = len(values) - 1
    if max(values[: since + 1]) >= min(values[cuts_of(steps, since)[2] :]):
        return False
    low = min(values[since:])
    return (values[-1] - low) / (steps - since) >= 2 * ((low - values[warm]) / (since - warm))


LEAST_ODDS = 3


def leak_after(values: Sequence[int], warm: int, since: int) -> tuple[float, float, float]:
    """Return the odds that a series grows steadily after step `since`, its rate, and the rate's
    error.
    """
    if len(values) - 1 - since < 4 or values[-1] <= values[since]:
        return 0.0, 0.0, 0.0
    odds, rate, error = weigh(values[since:], begun=since > warm)
    if begins_later(values[since:]):
        return 0.0, 0.0, 0.0
    if odds > 0 and since == warm >= 3:
        early = len(rises_of(values[1 : warm + 1])) / (warm - 1)
        later = len(rises_of(values[warm:])) / (len(values) - 1 - warm)
        if early > 0 and 0.5 <= later / early <= 2:
            odds = max(odds, weigh(values[1:])[0])
    return odds, rate, error


def fine_rises(values: Sequence[int], *last: int) -> tuple[list[int], int]:
    """Return the minimum of each pair of consecutive step ends, and the last value; empty if there
    are few steps.
    """
    pairs = [*map(min, pairwise(values)), *last]
    found = rises_of(pairs)
    return (found if len(found) >= 4 else []), len(pairs) - 1


def begins_later(values: Sequence[int]) -> bool:
    """Return whether the lack of rises in the first quarter is unlikely to be chance."""
    rises, rounds = fine_rises(values)
    return bool(rises) and 4 * rises[0] > rounds and began_later(rises, rounds)


def weigh(values: Sequence[int], *, begun: bool = False) -> tuple[float, float, float]:
    """Return the best odds over windows of 1, 2, 4 ... steps, and the rate they give."""
    stop = max(stop_ratio(*fine_rises(values)), stop_ratio(*fine_rises(values, values[-1])))
    best, chosen = 0.0, 0
    size = 1
    while len(values) // size > 4:
        row = rows_of(values, size)
        rises, rounds = rises_of(row), len(row) - 1
        if len(rises) >= 4:
            stopped = max(stop if size > 1 else 0.0, stop_ratio(rises, rounds))
            odds = odds_of(rises, rounds, len(values) - 1, stopped)
            if odds > best * 1.000000001:  # otherwise both are equal
                best, chosen = odds, size
        size *= 2
    if not chosen:
        return 0.0, 0.0, 0.0
    row = rows_of(values, chosen)
    rises = rises_of(row)
    good = median(min(row[k:]) - max(row[:k]) for k in rises)
    if (begun or began_later(rises, len(row) - 1)) and rises[0] > 1:
        row = row[rises[0] - 1 :]
        values = values[-len(row) * chosen :]
    return (best, *rate_of(values, row, chosen, good))


def rows_of(values: Sequence[int], size: int) -> list[int]:
    """Return the lowest of each `size` values, counted from the end."""
    first = len(values) % size
    return [min(values[k : k + size]) for k in range(first, len(values), size)]


def rises_of(row: Sequence[int]) -> list[int]:
    """Return each point after which all values exceed all earlier ones, by at least a quarter of
    the typical rise.
    """
    by = {k: min(row[k:]) - max(row[:k]) for k in range(1, len(row))}
    found = {k: rise for k, rise in by.items() if rise > 0}
    return [k for k, rise in found.items() if 4 * rise * len(found) >= sum(found.values())]


def stop_ratio(rises: Sequence[int], rounds: int) -> float:
    """Return a likelihood ratio: of these rises if they stop before the last round, and if each
    round has the same chance of a rise.
    """
    if len(rises) > 1:
        rises, rounds = [k - rises[0] for k in rises[1:]], rounds - rises[0]
    n = len(rises)
    if not n or not rounds:
        return 0.0
    steady = chance(n, rounds)
    return float(sum(chance(n, end) / steady for end in range(rises[-1], rounds)) / rounds)


def chance(n: int, rounds: int) -> Fraction:
    """Return the likelihood that the rises are in exactly these rounds, averaged over all chances
    of a rise per round.
    """
    return Fraction(factorial(n) * factorial(rounds - n), factorial(rounds + 1))


def began_later(rises: Sequence[int], rounds: int) -> bool:
    """Return whether the lack of earlier rises is unlikely to be chance: the mirror image of
    `stop_ratio`.
    """
    return stop_ratio([rounds + 1 - k for k in reversed(rises)], rounds) > LEAST_ODDS


def odds_of(rises: Sequence[int], rounds: int, steps: int, stopped: float) -> float:
    """Return the odds of a leak against the alternatives: unrelated rises, rises that stopped, and
    rises that become rarer.
    """
    few = (steps + 1) / 2.0 ** (len(rises) + 1)
    rarer = prod(3 / (1 - exp(-3)) * exp(-3 * (k - 0.5) / rounds) for k in rises)
    return min(3 / (few + stopped + rarer), 1e6)


def rate_of(
    values: Sequence[int], row: Sequence[int], size: int, good: float
) -> tuple[float, float]:
    """Return the growth per step if nothing falls, otherwise the least-squares slope; and its
    error. One or two far larger changes get less weight. Return 0 if growth slows down.
    """
    gains = [float(b - a) for a, b in pairwise(row)]
    most = 4 * max(good, median([gain for gain in gains if gain > 0] or [0]))
    clipped = [max(-most, min(most, gain)) for gain in gains]
    excess = 0.0
    if sum(abs(gain) > most for gain in gains) <= 2:
        excess = sum(gain - one for gain, one in zip(gains, clipped, strict=True))
        gains = clipped
    levels = [sum(gains[:k]) for k in range(len(row))]
    middle = (len(row) - 1) / 2
    slope = sum((k - middle) * one for k, one in enumerate(levels)) / sum(
        (k - middle) ** 2 for k in range(len(row))
    )
    slope /= size
    if abs(values[-len(row) * size] - values[0]) > most:
        values = values[-len(row) * size :]
    if list(values) == sorted(values):
        slope = (values[-1] - values[0] - excess) / (len(values) - 1)
    mean = sum(gains) / len(gains)
    spread = sum((gain - mean) ** 2 for gain in gains) / (len(gains) - 1) / len(gains)
    early = sum(gain for k, gain in enumerate(gains, 1) if 2 * k < len(row))
    late = sum(gain for k, gain in enumerate(gains, 1) if 2 * k > len(row))
    slower = late - early
    if 3 * slower < -sum(gains) and slower < -2 * sqrt(sum(gain**2 for gain in gains)):
        slope = 0.0
    return slope, sqrt(spread) / size


# ---- groups


YOUNG = 2
MORE_NEED = 2


@dataclass
class Crossing:
    """An allocation that is live at step ends `first` to `stop` - 1."""

    size: int
    first: int
    stop: int


def at_ends(crossings: Sequence[Crossing], steps: int) -> list[int]:
    """Return these allocations' bytes at each step end."""
    return [
        sum(one.size for one in crossings if one.first <= k < one.stop) for k in range(steps + 1)
    ]


@dataclass
class Group:
    """A group's bytes at step ends, and the verdict."""

    values: list[int]
    """All of the group's bytes at each step end."""
    judged: Judged
    lasting: list[int]
    """The series that was judged; shorter than `values` if the last ends are unknown."""
    young: list[int]
    """The part that is constantly replaced, so it isn't part of a leak."""
    unsure_end: bool = False
    replaced: bool = False
    needs_more: bool = False
    made_up: int = 0
    falls: int = 0
    moves: bool = True
    """Whether any memory in the group is allocated or freed."""

    @property
    def growth(self) -> int:
        """Return how much a leak grew."""
        return self.lasting[-1] - self.lasting[self.judged.since] if self.judged.rate else 0


def falls(values: Sequence[int], warm: int) -> int:
    """Return how much a series shrinks per step, if it does so steadily."""
    if values[-1] >= values[warm]:
        return 0
    negative = [-one for one in values]
    return judge(negative, warm, 1).rate or judge(negative[:-1], warm, 1).rate


def grouped(
    crossings: Sequence[Crossing], steps: int, warm: int, least: int, within_rate: int
) -> Group:
    """Judge one group by itself."""
    values = at_ends(crossings, steps)
    found = Group(values, judge(values, warm, least), values, [0] * (steps + 1))
    short = [one for one in crossings if one.first > 0 and one.stop - one.first <= YOUNG]
    if not any(one.stop <= steps for one in short) or steps < warm + YOUNG:
        return found
    late = steps - YOUNG
    lasting = at_ends([one for one in crossings if one not in short], steps)[: late + 1]
    old = judge(lasting, warm, least)
    found.young = at_ends(short, steps)
    found.unsure_end = any(one.stop > steps for one in short)
    if old.rate:
        found.judged, found.lasting = old, lasting
    elif found.judged.rate:
        if 2 * (lasting[-1] - lasting[warm]) < values[late] - values[warm]:
            found.replaced = True
            if within_rate >= MORE_NEED * found.judged.rate:
                found.needs_more = True
                found.judged.rate, found.judged.error, found.judged.odds = 0, 0, 0.0
                found.lasting = lasting
            else:
                found.young, found.unsure_end = [0] * (steps + 1), False
    else:
        found.lasting = lasting
    return found


def cancelled(up: Sequence[int], down: Sequence[int], warm: int, last: int) -> float:
    """Return the fraction of two series' changes that cancels out in their sum."""
    changes = [(up[k] - up[k - 1], down[k] - down[k - 1]) for k in range(warm + 1, last + 1)]
    apart = sum(abs(a) + abs(b) for a, b in changes)
    return 1 - sum(abs(a + b) for a, b in changes) / apart if apart else 0.0


def set_against_each_other(groups: dict[object, Group], warm: int, least: int) -> None:
    """Offset growth by steady shrinkage at the same moments, largest first."""
    ups = [one for one in groups.values() if one.judged.rate]
    ups.sort(key=lambda one: (-one.judged.rate, -one.judged.stayed))
    downs = [one for one in groups.values() if not one.judged.rate]
    for one in downs:
        one.falls = falls(one.lasting, warm)
    for down in sorted((one for one in downs if one.falls), key=lambda one: -one.falls):
        falling, rate = down.lasting, down.falls
        while rate and (still := [one for one in ups if one.judged.rate]):
            last = len(down.values) - 1 - YOUNG
            up = max(still, key=lambda one: cancelled(one.lasting, falling, warm, last))
            both = [a + b for a, b in zip(up.lasting, falling, strict=False)]
            net = judge(both, warm, least)
            if net.rate:
                net.stayed = up.judged.stayed
                up.judged, up.lasting = net, both
                up.made_up += rate
                break
            up.judged.rate, up.judged.error, up.judged.odds = 0, 0, 0.0
            falling, rate = both, falls(both, warm)


def all_groups(
    replay: OracleReplay,
    moments: Sequence[int],
    group_of: Callable[[Lifetime], object],
    warm: int,
    least: int,
    levels: Sequence[int],
) -> tuple[dict[object, Group], int, int]:
    """Judge all groups; return total bytes per step, and how memory used within a step grows."""
    steps = len(moments) - 1
    within = [0] * (steps + 1)
    live = [{id(one) for one in replay.live_at(moment)} for moment in moments]
    crossings: dict[object, list[Crossing]] = {}
    for one in replay.lifetimes:
        met = [k for k in range(len(moments)) if id(one) in live[k]]
        if met:
            crossing = Crossing(one.size, met[0], met[-1] + 1)
            crossings.setdefault(group_of(one), []).append(crossing)
        elif one.alloc_index >= 0:
            for k in range(steps + 1):
                if one.alloc_index <= moments[k]:
                    within[k] += one.size
                    break
    within[0] = within[1] if steps else 0
    rate = judge(within, warm, 1).rate
    groups = {name: grouped(each, steps, warm, least, rate) for name, each in crossings.items()}
    for name, each in crossings.items():
        groups[name].moves = any(one.first > 0 or one.stop <= steps for one in each)
    set_against_each_other(groups, warm, least)
    moving = [one for one in groups.values() if one.moves]
    whole = [level - sum(one.young[k] for one in moving) for k, level in enumerate(levels)]
    if any(one.unsure_end for one in moving) and steps >= warm + YOUNG:
        whole = whole[: len(whole) - YOUNG]
    return groups, judge(whole, warm, least).rate, rate
