"""Tests of recording/steps.py: a program's steps, with any number of optimizers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.record import _tracker
from memreplay.recording.steps import MOST_OPTIMIZERS, Steps


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Advance the clock by a microsecond each time it is read."""
    now = [0]

    def tick() -> int:
        now[0] += 1
        return now[0]

    monkeypatch.setattr(_tracker, "now_us", tick)
    monkeypatch.setattr(_tracker, "step", lambda: None)
    return now


def ran(*iterations: str) -> tuple[Steps, list[int]]:
    """Run optimizers in this order; return the number of ended steps after each iteration."""
    steps, counts = Steps(), []
    for iteration in iterations:
        for optimizer in iteration:
            steps.stepped(ord(optimizer))
        counts.append(steps.count)
    return steps, counts


@pytest.mark.parametrize(
    "iterations",
    [
        ["a"] * 12,
        ["dg"] * 12,  # a GAN
        ["ab", *["b"] * 9] * 6,  # the first optimizer steps every 10th time
        ["c", "ca"] * 6,  # a critic, and an actor every second time
        ["abcdefgh"] * 12,
        ["abc", "abc", "bca", "cab", "bc", "abc"],
        ["a"],
        ["dg"],
    ],
)
def test_every_iteration_is_a_step(iterations: list[str]) -> None:
    steps, counts = ran(*iterations)
    assert len(steps.ends()) == len(iterations)
    assert counts == list(range(1, len(iterations) + 1))


def test_steps_end_with_the_most_frequent_optimizer() -> None:
    steps, _ = ran("ab", "b", "b", "ab", "b")
    assert steps.ends() == [2, 3, 4, 6, 7]  # one step for each b
    steps, _ = ran("dg", "dg")
    assert steps.ends() == [8, 10]  # the first of two equally frequent optimizers


def test_every_critic_iteration_is_a_step() -> None:
    steps, _ = ran(*["dddddg"] * 4)
    assert len(steps.ends()) == 20


def test_one_optimizer_takes_over_from_another() -> None:
    """The old optimizer's last step and the new one's first step are two separate steps."""
    assert len(ran(*"aaaaa", *"bbbbb")[0].ends()) == 10
    assert len(ran(*["ab"] * 5, *["cd"] * 5)[0].ends()) == 10
    assert len(ran("ab")[0].ends()) == 1  # a single iteration isn't enough to establish a pattern


@given(
    st.lists(st.tuples(st.sets(st.integers(1, 4)), st.sets(st.integers(1, 4))), max_size=30),
)
def test_regular_optimizer_counts_the_steps_among_others(
    others: list[tuple[set[int], set[int]]],
) -> None:
    steps = Steps()
    wanted = 0
    for before, after in others:
        for one in sorted(before):
            steps.stepped(one)
        steps.stepped(0)
        wanted += 1
        for one in sorted(after - before):
            steps.stepped(one)
    assert len(steps.ends()) == steps.count == wanted
    assert all(0 in one.ends for one in steps.iterations)


def test_optimizers_inside_backward_end_the_step_with_it(clock: list[int]) -> None:
    steps = Steps()
    ended: list[int] = []
    steps.after = lambda: ended.append(steps.count)
    for k in range(12):
        waiting: list[Callable[[], None]] = []
        for parameter in range(35):
            steps.stepped(parameter, waiting.append)
            clock[0] += 1
        assert ended == list(range(1, k + 1))  # no step ends before the pass is over
        clock[0] = 1000 * (k + 1)
        (end,) = waiting
        end()
    assert steps.ends() == [1000 * k + 1 for k in range(1, 13)]
    assert ended == list(range(1, 13))


def test_backward_pass_without_a_known_end_still_gives_steps() -> None:
    steps = Steps()
    ended: list[int] = []
    steps.after = lambda: ended.append(steps.count)
    for _ in range(3):
        for parameter in range(4):
            steps.stepped(parameter, lambda _: None)
    assert len(steps.ends()) == 3
    assert ended == [1, 2]


def test_explicit_steps_take_precedence() -> None:
    steps, _ = ran("a", "a", "a")
    steps.tell()
    steps.stepped(1)
    steps.tell()
    assert (steps.count, len(steps.ends())) == (2, 2)


def test_step_with_very_many_optimizers_takes_little_memory() -> None:
    steps = Steps()
    for _ in range(3):
        for one in range(10 * MOST_OPTIMIZERS):
            steps.stepped(one)
    assert [len(one.ends) for one in steps.iterations[:2]] == [MOST_OPTIMIZERS] * 2
    assert len(steps.ends()) == 3
