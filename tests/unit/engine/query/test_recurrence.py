"""recurrence: repeated runs of allocations show a loop's rounds, but not the batches within a
round.
"""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query import _growth
from memreplay.engine.replay import _timeline
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import KIB, replay


class Program:
    """A training loop whose allocations are identified by stacks or by sizes."""

    def __init__(self, *, stacks: bool = True) -> None:
        self.made = SnapshotBuilder(stacks=stacks)
        self.starts: list[int] = []
        self._next = 0x7F00_0000_0000

    def alloc(self, name: str, size: int) -> tuple[int, int]:
        self._next += 64 * KIB
        self.made.alloc(self._next, size, frames=[(name, "train.py", 1)])
        return self._next, size

    def use(self, name: str, size: int) -> None:
        self.made.free(*self.alloc(name, size))

    def step(self, batches: int = 1, *, length: int = 1) -> None:
        self.starts.append(len(self.made.traces[0]))
        gradients: list[tuple[int, int]] = []
        for _ in range(batches):
            self.use("batch", 3 * length)
            saved = [self.alloc(f"f{n}", (40 + n) * KIB * length) for n in range(6)]
            while saved:
                self.use("b", (2 * KIB + len(saved)) * length)
                self.made.free(*saved.pop())
                if len(gradients) < 6:
                    gradients.append(self.alloc("grad", 20 * KIB + len(gradients)))
        for n in range(10):
            self.use(f"update{n}", 4 * KIB + n)
        for one in gradients:
            self.made.free(*one)

    def evaluate(self) -> None:
        for _ in range(3):
            self.use("e", 5)
            for n in range(6):
                self.use(f"e{n}", (30 + n) * KIB)

    def find(self, *, by_size: bool = False) -> tuple[list[int], float]:
        made = replay(self.made)
        usage = _timeline.requested_measure(made).usage()
        cuts, score, *_ = _growth.find_recurrence(made, usage, 0, by_size)
        return memoryview(cuts).tolist(), score


CASES = [
    (stacks, batches, evaluate, varies)
    for stacks, batches, evaluate, varies in product(
        (True, False), (1, 2, 4), (0, 5), (False, True)
    )
    # If there are only sizes and they vary, steps can't be told from the work between evaluations.
    if stacks or not (evaluate and varies)
]


@pytest.mark.parametrize("stacks, batches, evaluate, varies", CASES)
def test_steps_are_found_instead_of_their_batches(
    stacks: bool, batches: int, evaluate: int, varies: bool
) -> None:
    program = Program(stacks=stacks)
    for k in range(20):
        program.step(batches, length=1 + k * 7 % 3 if varies else 1)
        if evaluate and k % evaluate == evaluate - 1:
            program.evaluate()
    cuts, score = program.find(by_size=not stacks)
    assert 19 <= len(cuts) <= 20
    assert score > 0.6
    # One step starts between any two cuts.
    inside = [sum(a <= cut < b for cut in cuts) for a, b in pairwise(program.starts)]
    assert inside[1:-1] == [1] * (len(inside) - 2)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_score_is_low_without_repetition(steps: int) -> None:
    program = Program()
    for _ in range(steps):
        program.step(4)
    assert program.find()[1] < 0.6
    assert program.find(by_size=True)[1] < 0.6


def test_loop_in_a_module_is_not_a_step() -> None:
    made = SnapshotBuilder()
    for _ in range(24):
        for n in range(8):
            frames = [(f"op{n}", "block.py", n), ("forward", "model.py", 58), ("main", "a.py", 1)]
            made.alloc(1 << 20, (n + 1) * KIB, frames=frames).free(1 << 20, (n + 1) * KIB)
    loaded = replay(made)
    usage = _timeline.requested_measure(loaded).usage()
    assert _growth.find_recurrence(loaded, usage, 0, False)[1] == 0
    assert _growth.find_recurrence(loaded, usage, 0, True)[1] > 0.6


def test_rounds_of_a_server_that_keeps_memory_are_found() -> None:
    program = Program()
    held: list[tuple[int, int]] = []
    for n in range(60):
        program.starts.append(len(program.made.traces[0]))
        for k in range(7):
            program.use(f"op{k}", (k + 1) * KIB)
        held.append(program.alloc("answer", (1 + n * 37 % 64) * 16 * KIB))
        if len(held) > 12:
            program.made.free(*held.pop(n * 7 % 12))
    loaded = replay(program.made)
    usage = _timeline.requested_measure(loaded).usage()
    _, strict, cuts, score = _growth.find_recurrence(loaded, usage, 0, False)
    assert strict < 0.6
    assert score > 0.9
    assert len(memoryview(cuts)) >= len(program.starts) - 1


def test_rounds_are_found_if_the_recording_starts_inside_one() -> None:
    # Four identical layers with a batch in between. Runs of these layers occur one time fewer than
    # other runs.
    made = SnapshotBuilder()
    for n in range(31):
        for k in range(9):
            if n == 0 and k < 5:
                continue
            forward = [("linear", "f.py", 5), ("forward", "model.py", 9), ("main", "a.py", 2)]
            frames = [("main", "a.py", 1)] if k == 0 else forward
            made.alloc(1 << 20, 32 * KIB, frames=frames).free(1 << 20, 32 * KIB)
    loaded = replay(made)
    usage = _timeline.requested_measure(loaded).usage()
    cuts, score, *_ = _growth.find_recurrence(loaded, usage, 0, False)
    assert score > 0.6
    assert len(memoryview(cuts)) in (29, 30)


def test_frees_at_the_end_of_a_program_are_ignored() -> None:
    program = Program()
    kept = []
    for _ in range(30):
        for k in range(6):
            program.use(f"op{k}", (k + 1) * KIB)
        kept += [program.alloc("kept", KIB) for _ in range(8)]
    assert program.find()[1] > 0.85
    for one in reversed(kept):
        program.made.free(*one)
    cuts, score = program.find()
    assert score > 0.85
    assert len(cuts) >= 29


@given(seed=st.lists(st.integers(0, 6), max_size=120))
def test_cuts_are_valid_for_any_order(seed: list[int]) -> None:
    program = Program()
    for n in seed:
        program.use(f"f{n}", (n + 1) * KIB)
    for by_size in (False, True):
        cuts, score = program.find(by_size=by_size)
        assert cuts == sorted(set(cuts))
        assert 0 <= score <= 1
        assert bool(cuts) == (score > 0)
        # Check by brute force that the same run of eight ends at each cut, and nowhere else.
        runs = {cut: seed[cut // 3 - 7 : cut // 3 + 1] for cut in cuts}
        assert len({tuple(run) for run in runs.values()}) <= 1
        for cut, run in runs.items():
            assert cut % 3 == 0
            assert len(run) == 8
        if cuts:
            every = [i for i in range(7, len(seed)) if seed[i - 7 : i + 1] == runs[cuts[0]]]
            assert [cut // 3 for cut in cuts] == every


def test_tiny_traces_have_no_rounds() -> None:
    for events in range(12):
        made = SnapshotBuilder()
        for _ in range(events):
            made.alloc(1 << 20, 8)
        loaded = replay(made)
        usage = _timeline.requested_measure(loaded).usage()
        assert len(memoryview(_growth.find_recurrence(loaded, usage, 0, True)[0])) == 0
        assert len(memoryview(_growth.find_optimizer_steps(loaded, False))) == 0
    with pytest.raises(ValueError, match="one i64 per event"):
        _growth.find_recurrence(loaded, loaded.match(), 0, False)
