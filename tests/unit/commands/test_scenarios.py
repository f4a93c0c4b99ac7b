"""Leaks and lookalikes in runs of 40 steps: how many are found, and how accurately."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import mean

import pytest

from memreplay.engine.query import _growth

STEPS, WARM, KIB = 40, 13, 1024
Scenario = Callable[[random.Random, int], int]  # live memory after each step, in KiB
SEEDS = 60


def series(grow: Scenario, seed: int, noise: int) -> list[int]:
    """Return the live bytes at each step's end: growing memory, plus temporaries."""
    dice = random.Random(seed)
    values, live = [0], 0
    for step in range(1, STEPS + 1):
        live += grow(dice, step)
        values.append((64 * live + (dice.randrange(noise + 1) if noise else 0)) * KIB)
    return values


def found(grow: Scenario, noise: int) -> list[tuple[int, int, float]]:
    """Return (rate, error, truth) of the stacks reported as leaks."""
    rows = []
    for seed in range(SEEDS):
        values = series(grow, seed, noise)
        leaks, rate, since, *_, error, _odds = _growth.judge(values, WARM, 1)
        if leaks:
            truth = (series(grow, seed, 0)[-1] - series(grow, seed, 0)[since]) / (STEPS - since)
            rows.append((rate, error, truth))
    return rows


def often(share: float) -> Scenario:
    return lambda dice, _: int(dice.random() < share)


def each(period: int) -> Scenario:
    return lambda _, step: int(step % period == 0)


@pytest.mark.parametrize(
    "grow, noise, least, off",
    [
        (each(1), 0, 60, 0.001),
        (each(1), 200, 60, 0.05),
        (each(2), 0, 60, 0.04),
        (each(5), 0, 60, 0.12),
        (each(5), 30, 58, 0.12),
        (often(0.5), 0, 56, 0.2),
        (often(0.5), 200, 50, 0.25),
        (often(0.2), 0, 35, 0.35),
        (lambda _, step: int(step > 20), 0, 60, 0.06),
        (lambda dice, _: dice.randrange(1, 4), 0, 60, 0.1),
    ],
)
def test_leaks_are_found(grow: Scenario, noise: int, least: int, off: float) -> None:
    rows = found(grow, noise)
    assert len(rows) >= least
    assert mean(abs(rate - truth) / truth for rate, _, truth in rows) <= off
    # The error is as stated: it rarely exceeds twice the stated value.
    wrong = [abs(rate - truth) > 2 * error + truth / 15 for rate, error, truth in rows]
    assert mean(wrong) <= 0.1


def filling(first: int, last: int) -> Scenario:
    return lambda _, step: int(first <= step <= last)


def sawtooth(period: int) -> Scenario:
    return lambda _, step: 1 if step % period else 1 - period


@pytest.mark.parametrize("noise", [0, 30])
@pytest.mark.parametrize(
    "grow",
    [
        lambda _, step: 0,
        filling(1, 10),
        filling(1, 30),
        filling(15, 32),
        filling(20, 36),
        filling(20, 37),
        lambda _, step: {8: 4, 25: 1}.get(step, 0),
        *map(sawtooth, (5, 8, 15, 30)),
    ],
)
def test_growth_that_stops_or_reverses_is_not_a_leak(grow: Scenario, noise: int) -> None:
    assert len(found(grow, noise)) <= SEEDS // 20


def test_a_few_remaining_allocations_are_not_a_leak() -> None:
    """There are two or three such allocations, at arbitrary steps."""
    for count in (2, 3):
        for seed in range(SEEDS):
            steps = random.Random(seed).sample(range(1, 41), count)
            values = [sum(k <= step for k in steps) for step in range(41)]
            assert not _growth.judge(values, WARM, 1)[0]


def test_odds_reflect_the_evidence() -> None:
    def odds(values: list[int]) -> float:
        return _growth.judge(values, WARM, 1)[-1]

    steady, stops = (list(range(41)), [min(k, 38) for k in range(41)])
    assert odds(steady) > 1000 > odds([k // 5 for k in range(41)]) > 3 > odds(stops)
