"""growth: sums per step, the rule for leaks, and stacks at the ends of steps."""

from __future__ import annotations

import random
from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query import _groups, _growth
from memreplay.engine.replay import _timeline
from tests import oracle_steps
from tests.build import FrameSpec, SnapshotBuilder
from tests.unit.engine.replay.measured import KIB, A, replay

LEAK: list[FrameSpec] = [("keep", "/home/ana/train.py", 5)]
WORK: list[FrameSpec] = [("work", "/home/ana/train.py", 9)]


def training(steps: int, kept: int = KIB) -> SnapshotBuilder:
    """Make three events of work per step, and one tensor that is kept."""
    made = SnapshotBuilder()
    for k in range(steps):
        made.alloc(A, 8 * KIB, frames=WORK).free(A, 8 * KIB, frames=WORK)
        made.alloc(A + (k + 1) * 64 * KIB, kept, frames=LEAK)
    return made


def test_each_step_has_its_sums() -> None:
    made = replay(training(3))
    measure = _timeline.requested_measure(made)
    found = _growth.step_sums(
        made, measure, measure.usage(), 0, [(0, 4), (4, 4), (4, 11), (11, 12)]
    )
    assert found == [
        (8 * KIB, 0, KIB, 2, 9 * KIB),
        (KIB, 3, KIB, 0, 0),  # no event, so the level before the step
        (10 * KIB, 8, 2 * KIB, 3, 17 * KIB),
        (3 * KIB, 11, 3 * KIB, 1, KIB),
    ]


def test_without_a_measure_every_allocation_is_a_rise() -> None:
    made = replay(training(1))
    usage = _timeline.requested_measure(made).usage()
    assert _growth.step_sums(made, None, usage, 0, [(0, 4)])[0][3:] == (2, 9 * KIB)
    assert _growth.step_sums(made, None, usage, 2 * KIB, [(0, 4)]) == [
        (8 * KIB, 0, KIB, 2, 7 * KIB)
    ]


@pytest.mark.parametrize(
    "values, warm, rate",
    [
        ([0, 1, 2, 3, 4], 0, 1),
        ([0, 9, 9, 9, 9, 9, 9], 1, 0),  # allocated in the first step, and kept
        ([0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6], 4, 0),  # a buffer that fills, then stops growing
        ([0, 1, 2, 3], 0, 0),  # three steps aren't enough
        ([5, 1, 4, 2, 5, 1, 4, 3, 5, 2, 4, 1, 5], 4, 0),  # noise
        ([0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9], 3, 0),
        ([k % 10 for k in range(40)], 13, 0),  # reset every tenth step
        ([k // 10 * 80 for k in range(200)], 66, 8),  # every tenth step
        ([10 * k + (k * 7) % 13 for k in range(60)], 19, 10),  # with noise
        ([10 * k + 5000 * (k == 30) for k in range(60)], 19, 10),  # with one spike
        ([k if k < 50 else 0 for k in range(61)], 20, 0),  # everything is freed
        ([-k for k in range(20)], 6, 0),
        ([max(0, k - 100) for k in range(201)], 66, 1),  # starts halfway
        ([max(0, k - 165) for k in range(201)], 66, 1),
        ([max(0, k - 180) for k in range(201)], 66, 0),  # starts too late to judge
        (
            [900 * (k > 0) + max(0, k - 140) for k in range(201)],
            66,
            1,
        ),  # leaks despite the jump
        ([min(k, 150) for k in range(201)], 66, 0),  # full
        ([int(300 * (1 - 0.99**k)) for k in range(401)], 133, 0),  # nearly full
        *([[k % p for k in range(201)], 66, 0] for p in (30, 45, 50, 67, 70, 90, 99, 120, 140)),
        ([10 * min(k, 120) + max(0, k - 120) for k in range(201)], 66, 0),  # also nearly full
        ([max(0, k - 30) for k in range(41)], 13, 0),  # few steps
        # Twice the rate from halfway on counts as a start; slightly less doesn't.
        ([0] * 3 + [3] * 4 + list(range(4, 22)), 0, 1),
        ([0] * 3 + [4] * 4 + list(range(5, 23)), 0, 0),
    ],
)
def test_leaks_are_found_with_their_rate(values: list[int], warm: int, rate: int) -> None:
    leaks, found, *_ = _growth.judge(values, warm, 1)
    assert (leaks, found) == (rate > 0, rate)
    assert oracle_steps.judge(values, warm, 1).rate == rate


@pytest.mark.parametrize(
    "values, warm, odds",
    [
        ([0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 8, 8, 9, 9], 4, 6.69),  # half as often later on
        ([0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 8, 8, 8, 8], 4, 1.12),  # less
        ([0, 0, 0, *range(1, 11)], 3, 221.3),  # twice as often
        # More than twice as often: only the later rises' probability counts.
        ([0, 0, 0, 0, *range(1, 11)], 4, 57.15),
    ],
)
def test_earlier_growth_of_the_same_kind_supports_a_leak(
    values: list[int], warm: int, odds: float
) -> None:
    assert _growth.judge(values, warm, 1)[8] == pytest.approx(odds, rel=0.01)
    assert oracle_steps.judge(values, warm, 1).odds == pytest.approx(odds, rel=0.01)


def test_leak_must_reach_the_smallest_rate() -> None:
    assert _growth.judge([0, 5, 10, 15, 20], 0, 5)[0]
    assert not _growth.judge([0, 5, 10, 15, 20], 0, 6)[0]


def test_survivors_are_counted_with_their_lifetimes() -> None:
    *_, rises, until, stayed, stopped = _growth.judge([1, 5, 5, 9, 9, 7, 7, 7, 8], 2, 1)[:7]
    assert (rises, until, stayed, stopped) == (2, 3, 6, True)
    assert _growth.judge([3, 3, 3, 3, 3], 0, 1)[4:7] == (0, 0, True)
    assert _growth.judge([9, 3, 3, 3, 3], 0, 1)[5] == -6


def test_growth_since_the_last_reset_is_ongoing() -> None:
    # A list was cleared recently, and its contents since then are still growing.
    *_, stayed, stopped = _growth.judge([k % 50 for k in range(101)][:97], 32, 1)[:7]
    assert (stayed, stopped) == (30, True)
    *_, stayed, stopped = _growth.judge([k % 70 for k in range(201)], 66, 1)[:7]
    assert (stayed, stopped) == (26, False)


@pytest.mark.parametrize("scale", [1, 2**40])
@given(
    values=st.one_of(
        st.lists(st.integers(0, 9), min_size=1, max_size=40),
        st.lists(st.integers(0, 3), min_size=1, max_size=40).map(
            lambda steps: [sum(steps[: k + 1]) for k in range(len(steps))]
        ),
        # A leak that starts late, with noise.
        st.builds(
            lambda noise, first, pace: [
                one + pace * max(0, k - first) for k, one in enumerate(noise)
            ],
            st.lists(st.integers(0, 4), min_size=20, max_size=60),
            st.integers(5, 40),
            st.integers(1, 4),
        ),
    ),
    third=st.integers(0, 3),
    least=st.integers(1, 3),
)
def test_verdict_matches_the_oracle(values: list[int], third: int, least: int, scale: int) -> None:
    values = [value * scale for value in values]
    warm = min(len(values) - 1, len(values) * third // 4)
    found = _growth.judge(values, warm, least)
    leaks, rate, since, rises, _, stayed, stopped, error, odds = found
    want = oracle_steps.judge(values, warm, least)
    assert (since, rises) == (want.since, want.rises)
    assert (rate if leaks else 0) == pytest.approx(want.rate, rel=1e-9, abs=1)
    assert error == pytest.approx(want.error, rel=1e-9, abs=1)
    assert odds == pytest.approx(want.odds, rel=1e-9)
    assert (stayed, stopped) == (want.stayed, want.stopped)


def test_overflowing_sums_wrap() -> None:
    huge = [-(2**63), 2**63 - 1, -(2**63), 2**63 - 1, 0, 2**62, -(2**62)]
    for seed in range(50):
        values = random.Random(seed).choices(huge, k=12)
        _growth.judge(values, 3, 1)  # it ends


def by_stack(replay: _timeline.Replay) -> _groups.Keys:
    none = bytes(replay.tables.n_strings)
    return _groups.stack_keys(replay, "stack", none, none)


def grown(measure: _timeline.Measure, moments: list[int], *how: Any) -> tuple[Any, ...]:
    usage = memoryview(measure.usage())
    levels = [usage[at] if 0 <= at < len(usage) else 0 for at in moments]
    return _growth.groups_grown(measure, by_stack(measure.replay), moments, levels, *how)


def test_leaks_are_grouped_by_stack() -> None:
    made = replay(training(8))
    moments = [-1, *(4 * k + 3 for k in range(8))]
    leaks, leaking, once, others, totals, young = grown(
        _timeline.requested_measure(made), moments, 2, 3, 1, 0
    )
    (row,) = leaks
    assert (leaking, once, others) == (1, [], 0)
    assert row[1:6] == (KIB, 6 * KIB, 0, 2 * KIB, 8 * KIB)
    # The survivors were allocated in steps 3 to 5, and are live at three later step ends.
    assert row[6:12] == (2, 6, 6, False, 3 * KIB, 3)
    assert row[12:14] == (0, pytest.approx(3 / (7 / 128 + (3 / (1 - exp(-3))) ** 6 * exp(-9))))
    assert row[14:] == (6 * KIB, 0, False)
    assert totals == (KIB, 6 * KIB, 0, 0, 3 * KIB, 3, KIB, 0, 0)
    assert young == [0] * 9


def test_top_limits_the_rows() -> None:
    made = SnapshotBuilder()
    for k in range(8):
        for n in range(5):
            made.alloc(A + (8 * n + k) * KIB, 100 * (n + 1), frames=[("f", "a.py", n)])
    measure = _timeline.requested_measure(replay(made))
    moments = [-1, *(5 * k + 4 for k in range(8))]
    rows, count, _, _, totals, _ = grown(measure, moments, 2, 3, 1, 2)
    assert ([row[1] for row in rows], count) == ([500, 400], 5)
    assert totals[0] == 1500
    assert len(grown(measure, moments, 2, 3, 1, 0)[0]) == 5
    assert grown(measure, moments, 2, 3, 301, 0)[1] == 2


class Loop:
    """A trace of steps in which lines of a program keep, free and replace tensors."""

    def __init__(self) -> None:
        self.made = SnapshotBuilder()
        self.moments = [-1]
        self.live: dict[int, list[tuple[int, int]]] = {}
        self.next = A
        self.events = 0

    def keep(self, line: int, size: int) -> None:
        self.made.alloc(self.next, size, frames=[("f", "train.py", line)])
        self.live.setdefault(line, []).append((self.next, size))
        self.next += 1 << 30
        self.events += 1

    def let_go(self, line: int, which: int = 0) -> None:
        self.made.free(*self.live[line].pop(which))
        self.events += 2

    def replace(self, line: int, size: int) -> None:
        """Free the previous tensor once the next exists."""
        there = bool(self.live.get(line))
        self.keep(line, size)
        if there:
            self.let_go(line, -2)

    def work(self, size: int) -> None:
        """Allocate and free within the step."""
        self.keep(0, size)
        self.let_go(0)

    def end(self) -> None:
        self.moments.append(self.events - 1)

    def found(self) -> Any:
        """Return rows of leaks, other rows, and the totals."""
        measure = _timeline.requested_measure(replay(self.made))
        steps = len(self.moments) - 1
        leaks, _, once, _, totals, _ = grown(measure, self.moments, steps // 3, 3, 1, 0)
        return leaks, once, totals


def test_replay_buffer_is_not_a_leak() -> None:
    loop = Loop()
    for _ in range(100):
        loop.keep(1, 64 * KIB)
    for _ in range(60):
        loop.let_go(1)
        loop.keep(2, 64 * KIB)
        loop.end()
    loop.moments[0] = 99
    leaks, once, totals = loop.found()
    assert leaks == []
    assert [row[5] for row in once] == [60 * 64 * KIB]
    assert totals[0] == totals[6] == 0


def test_leak_next_to_a_replay_buffer_is_found() -> None:
    # Each step's growth of the buffer is offset by freeing as much memory of another line.
    loop = Loop()
    for _ in range(100):
        loop.keep(1, 64 * KIB)
    loop.moments[0] = 99
    for _ in range(60):
        loop.let_go(1)
        loop.keep(2, 64 * KIB)
        loop.keep(3, 8 * KIB)
        loop.end()
    leaks, _, totals = loop.found()
    assert [(row[1], row[15]) for row in leaks] == [(8 * KIB, 0)]
    assert totals[6] == 8 * KIB


def test_results_that_replace_consumed_data_are_not_a_leak() -> None:
    loop = Loop()
    for _ in range(100):
        loop.keep(1, 32 * KIB)
    loop.moments[0] = 99
    for _ in range(60):
        loop.let_go(1)
        loop.keep(2, 24 * KIB)
        loop.keep(3, 8 * KIB)
        loop.end()
    assert loop.found()[0] == []


def test_line_that_keeps_more_than_it_frees_is_a_leak() -> None:
    loop = Loop()
    for _ in range(100):
        loop.keep(1, 16 * KIB)
    loop.moments[0] = 99
    for _ in range(60):
        loop.let_go(1)
        loop.keep(2, 64 * KIB)
        loop.end()
    leaks, _, totals = loop.found()
    assert [(row[1], row[14], row[15]) for row in leaks] == [(48 * KIB, 40 * 48 * KIB, 16 * KIB)]
    assert totals[:2] == (48 * KIB, 40 * 48 * KIB)


def test_growing_batch_is_not_a_leak() -> None:
    loop = Loop()
    for k in range(60):
        loop.replace(1, (8 + k) * KIB)
        loop.work(10 * (8 + k) * KIB)
        loop.end()
    leaks, _, totals = loop.found()
    assert leaks == []
    assert totals[6:] == (0, 1, 10 * KIB)


def test_growing_carried_state_is_a_leak() -> None:
    loop = Loop()
    for k in range(60):
        loop.replace(1, (8 + k) * KIB)
        loop.work(80 * KIB)
        loop.end()
    leaks, _, totals = loop.found()
    assert [(row[1], row[16]) for row in leaks] == [(KIB, True)]
    assert totals[6:] == (KIB, 0, 0)


def test_leak_is_found_at_the_call_site_of_a_replaced_tensor() -> None:
    sizes = random.Random(3)
    loop = Loop()
    for k in range(60):
        loop.keep(1, 512)
        if k:
            loop.let_go(1, -2)  # the ids of the previous step
        loop.keep(1, sizes.randrange(3000, 30_000))
        loop.end()
    leaks, _, totals = loop.found()
    assert [row[1] for row in leaks] == [512]
    assert totals[6] == 512


@pytest.mark.parametrize(
    "large, small, each", [(48 * KIB, 2 * KIB, 8), (256 * KIB, KIB, 10), (9000, 1000, 3)]
)
def test_irregular_leak_has_its_average_rate(large: int, small: int, each: int) -> None:
    values = [0]
    for k in range(120):
        values.append(values[-1] + (large if k % each == 0 else small))
    _, rate, since, *_, error, _ = _growth.judge(values, 40, 1)
    growth = values[-1] - values[since]
    assert rate == int(growth / (120 - since) + 0.5)
    assert abs(rate - (large + small * (each - 1)) / each) <= error


def test_single_jump_does_not_change_the_rate() -> None:
    values = [10 * k + 5000 * (k > 60) for k in range(121)]
    assert _growth.judge(values, 40, 1)[1] == 10


def test_invalid_arguments_are_rejected() -> None:
    made, other = replay(training(3)), replay(training(3))
    measure = _timeline.requested_measure(made)
    usage = measure.usage()
    for spans in ([(1, 0)], [(0, 13)], [(-1, 2)], [(0, 3), (2, 4)]):
        with pytest.raises(ValueError, match="spans must be in order"):
            _growth.step_sums(made, measure, usage, 0, spans)
    for moments in ([5, 4], [-2, 4], [0, 12]):
        with pytest.raises(ValueError, match="moments must be in order"):
            grown(measure, moments, 0, 0, 1, 0)
    with pytest.raises(ValueError, match="levels must have one number per moment"):
        _growth.groups_grown(measure, by_stack(made), [0, 1], [0], 0, 0, 1, 0)
    for values, warm in (([], 0), ([1], 1), ([1, 2], -1)):
        with pytest.raises(ValueError, match="there aren't that many steps"):
            _growth.judge(values, warm, 1)
    with pytest.raises(ValueError, match="another replay"):
        _growth.groups_grown(measure, by_stack(other), [0], [0], 0, 0, 1, 0)
    with pytest.raises(ValueError, match="another replay"):
        _growth.step_sums(other, measure, usage, 0, [])
    with pytest.raises(ValueError, match="one i64 per event"):
        _growth.step_sums(made, measure, made.match(), 0, [])
    short = _timeline.requested_measure(replay(training(1))).usage()
    with pytest.raises(ValueError, match="one i64 per event"):
        _growth.step_sums(made, measure, short, 0, [])
    with pytest.raises(TypeError):
        _growth.step_sums(made, measure, None, 0, [])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _growth.groups_grown(None, by_stack(made), [], [], 0, 0, 1, 0)  # type: ignore[arg-type]
