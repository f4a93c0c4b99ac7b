"""What steps do to memory, slowly and obviously: sums of steps, and what each group holds at their
ends. Made of the lifetimes of tests/oracle.py, and of docs/leaks.md's rule by its letter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tests.oracle import Lifetime, OracleReplay


@dataclass
class StepSum:
    """One step: its peak (the level before it included) and when, its end, what it allocated."""

    peak: int
    peak_at: int
    end: int
    allocations: int
    allocated: int


def level(replay: OracleReplay, event: int) -> int:
    """Usage after an event; -1 is the start."""
    return replay.usage[event] if event >= 0 else replay.baseline_bytes


def step_sums(replay: OracleReplay, spans: Sequence[tuple[int, int]]) -> list[StepSum]:
    """Of each span, from its first event to before its stop."""
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
    """What each group has live after each of these events."""
    series: dict[object, list[int]] = {}
    for k, moment in enumerate(moments):
        for one in replay.live_at(moment):
            series.setdefault(group_of(one), [0] * len(moments))[k] += one.size
    return series


def key_of(one: Lifetime) -> tuple[object, ...] | None:
    """The stack of an allocation; None for one of the baseline without a stack."""
    return None if one.alloc_index == -1 and not one.frames else one.frames


def old(replay: OracleReplay, moments: Sequence[int], warm: int, age: int) -> list[Lifetime]:
    """What was made in a later step, and was there `age` ends of steps after its first, and at the
    last one."""
    found = []
    for one in replay.live_at(moments[-1]):
        first = next(k for k, moment in enumerate(moments) if moment >= one.alloc_index)
        if first > warm and len(moments) - 1 - first >= age:
            found.append(one)
    return found


@dataclass
class Judged:
    """What a series comes to: bytes a step where it leaks, else 0."""

    rate: int
    since: int
    rises: int
    stayed: int
    stopped: bool


def judge(values: Sequence[int], warm: int, least: int) -> Judged:
    """A start, then one value a step, by the rule of docs/leaks.md."""
    steps = len(values) - 1
    cuts = cuts_of(steps, warm)
    stayed = min(values[cuts[3] :]) - values[0]
    stopped = max(values[cuts[3] :]) - min(values[cuts[3] :]) <= stayed
    found, since = 0, warm
    for cut in cuts[:4]:
        late = cut != cuts[0]
        if not late or (steps - cut >= 12 and begins(values, warm, cut)):
            rate = rate_after(values, cut)
            if rate > 0 and rate >= least:
                found, since, stopped = int(rate + 0.5), cut, False
                break
    rises = sum(values[k] > values[k - 1] for k in range(since + 1, steps + 1))
    return Judged(found, since, rises, stayed, stopped)


def cuts_of(steps: int, since: int) -> list[int]:
    """Where the quarters of the later steps begin, and where the last one ends."""
    return [since + (steps - since) * q // 4 for q in range(5)]


def begins(values: Sequence[int], warm: int, since: int) -> bool:
    """Whether growth may have begun there."""
    steps = len(values) - 1
    if max(values[: since + 1]) >= min(values[cuts_of(steps, since)[2] :]):
        return False
    low = min(values[since:])
    return (values[-1] - low) / (steps - since) >= 2 * ((low - values[warm]) / (since - warm))


def rate_after(values: Sequence[int], since: int) -> float:
    """Bytes a step, where it grows all along from there."""
    steps = len(values) - 1
    later = steps - since
    if later < 4:
        return 0
    floors = [min(values[cut:]) for cut in cuts_of(steps, since)]
    gains = [b - a for a, b in pairwise(floors)]
    if min(gains) <= 0 or min(gains) < median(gains) / 2:
        return 0
    changes = [abs(values[k] - values[k - 1]) for k in range(since + 1, steps + 1)]
    if floors[3] - floors[0] < 2 * median(changes):
        return 0
    lag = (later + 1) // 2
    return median((values[k + lag] - values[k]) / lag for k in range(since, steps - lag + 1))
