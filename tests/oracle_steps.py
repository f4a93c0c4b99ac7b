"""What steps do to memory, slowly and obviously: sums of steps, and what each stack holds at their
ends. Made of the lifetimes of tests/oracle.py, and of docs/leaks.md's rule by its letter.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def series_by_stack(
    replay: OracleReplay, moments: Sequence[int]
) -> dict[tuple[object, ...] | None, list[int]]:
    """What each stack has live after each of these events; None is the baseline without a stack."""
    series: dict[tuple[object, ...] | None, list[int]] = {}
    for k, moment in enumerate(moments):
        for one in replay.live_at(moment):
            series.setdefault(key_of(one), [0] * len(moments))[k] += one.size
    return series


def key_of(one: Lifetime) -> tuple[object, ...] | None:
    """The stack that an allocation is put down to."""
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
    rises: int
    stayed: int


def judge(values: Sequence[int], warm: int, least: int) -> Judged:
    """A start, then one value a step, by the rule of docs/leaks.md."""
    steps = len(values) - 1
    later = steps - warm
    cuts = [warm + later * q // 4 for q in range(5)]
    floors = [min(values[cut:]) for cut in cuts]
    rises = sum(values[k] > values[k - 1] for k in range(warm + 1, steps + 1))
    found = Judged(0, rises, floors[3] - values[0])
    if later < 4:
        return found
    gains = [b - a for a, b in pairwise(floors)]
    if min(gains) <= 0 or min(gains) < median(gains) / 2:
        return found
    changes = [abs(values[k] - values[k - 1]) for k in range(warm + 1, steps + 1)]
    if floors[3] - floors[0] < 2 * median(changes):
        return found
    lag = (later + 1) // 2
    slope = median((values[k + lag] - values[k]) / lag for k in range(warm, steps - lag + 1))
    if slope > 0 and slope >= least:
        found.rate = int(slope + 0.5)
    return found
