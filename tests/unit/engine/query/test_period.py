"""period: finding training loops by stacks that occur once per iteration, and telling them from
inner loops.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memreplay.engine.query import _growth
from memreplay.engine.replay import _timeline
from tests.build import SnapshotBuilder
from tests.examples import examples
from tests.unit.engine.replay.measured import KIB, replay

CALL = ("_call_impl", "torch/nn/modules/module.py", 1784)


class Loop:
    """A training loop. In each step, some stacks occur once; one loop over layers runs forward,
    another backward.
    """

    def __init__(self, *, stacks: bool = True, module: bool = False) -> None:
        self.made = SnapshotBuilder(stacks=stacks)
        self.module = module
        self.starts: list[int] = []
        self._next = 0x7F00_0000_0000

    @property
    def event(self) -> int:
        return len(self.made.traces[0])

    def alloc(self, name: str, size: int = KIB) -> tuple[int, int]:
        frames = [(name, f"{name}.py", 1)]
        if self.module:
            frames += [("forward", "model.py", 58), CALL]
        self._next += 64 * KIB
        self.made.alloc(self._next, size, frames=frames)
        return self._next, size

    def use(self, name: str, size: int = KIB) -> None:
        self.made.free(*self.alloc(name, size))

    def step(self, layers: int = 3, once: int = 4, skip: int = 0) -> None:
        self.starts.append(self.event)
        for n in range(skip, once):
            self.use(f"once{n}")
        saved = [self.alloc(f"forward{n}", 16 * KIB) for _ in range(layers) for n in range(2)]
        self.use("loss")
        while saved:
            self.use(f"backward{len(saved) % 2}", 2 * KIB)
            self.made.free(*saved.pop())
        self.use("clip")

    def find(self, by: str = "stacks") -> tuple[list[int], float, int]:
        made = replay(self.made)
        cuts, score, members = _growth.find_period(
            made, _timeline.requested_measure(made).usage(), 0, by
        )
        return memoryview(cuts).tolist(), score, members


def test_steps_are_found() -> None:
    loop = Loop()
    for _ in range(6):
        loop.step()
    cuts, score, members = loop.find()
    assert cuts == loop.starts
    assert members == 6
    assert 0.3 < score <= 1


@settings(max_examples=examples(60))
@given(
    steps=st.integers(4, 12),
    layers=st.lists(st.integers(1, 5), min_size=12, max_size=12),
    once=st.integers(3, 6),
    skip=st.integers(0, 3),
    evaluate=st.integers(2, 9),
)
def test_irregular_steps_are_found(
    steps: int, layers: list[int], once: int, skip: int, evaluate: int
) -> None:
    loop = Loop()
    # The recording starts and ends inside a step.
    for k in range(steps):
        loop.step(layers[k], once, skip if k == 0 else 0)
        if k % evaluate == evaluate - 1:
            for n in range(3):
                loop.use(f"evaluation{n}")
    loop.use("once0")
    cuts, _, _ = loop.find()
    # Whatever marks the steps, exactly one step starts between any two cuts.
    assert steps - 1 <= len(cuts) <= steps + 1
    ends = [*loop.starts[1:], loop.event + 1]
    inside = [sum(a <= cut < b for cut in cuts) for a, b in zip(loop.starts, ends, strict=True)]
    assert inside[1:-1] == [1] * (steps - 2)


def test_loop_in_a_module_is_not_a_step() -> None:
    for module in (False, True):
        loop = Loop(module=module)
        for _ in range(6):
            for n in range(5):
                loop.use(f"layer{n}", (n + 1) * KIB)
        cuts, score, _ = loop.find()
        assert (len(cuts), score > 0.5) == ((0, False) if module else (6, True))


def test_layers_that_save_activations_are_not_steps() -> None:
    loop = Loop()
    for _ in range(8):
        for n in range(5):
            loop.alloc(f"layer{n}")
    assert loop.find()[1] < 0.01


def test_inner_loop_with_little_memory_is_not_a_step() -> None:
    loop = Loop()
    saved = [loop.alloc("forward", 100 * KIB) for _ in range(200)]
    while saved:
        loop.made.free(*saved.pop())
    for _ in range(50):
        for n in range(4):
            loop.use(f"update{n}")
    assert loop.find()[1] < 0.1


def test_growing_leak_does_not_hide_the_steps() -> None:
    loop = Loop()
    for _ in range(20):
        loop.step()
        loop.alloc("leak", 20 * KIB)
    assert len(loop.find()[0]) == 20
    assert loop.find()[1] > 0.25


def test_steps_are_found_by_size_without_stacks() -> None:
    loop = Loop(stacks=False)
    for _ in range(6):
        for n in range(5):
            loop.use("", (3 * n + 1) * KIB)
    assert loop.find() == ([], 0.0, 0)
    cuts, score, members = loop.find("sizes")
    assert (len(cuts), members) == (6, 5)
    assert score > 0.5


def test_steps_are_found_by_memory_that_rises_and_falls() -> None:
    loop = Loop(stacks=False)
    for _ in range(6):
        loop.step()
        loop.alloc("", 50 * KIB)
    cuts, score, _ = loop.find("usage")
    assert len(cuts) == 6
    assert 0.3 < score <= 0.5
    assert loop.find("usage")[0] == cuts


@pytest.mark.parametrize("by", ["stacks", "sizes", "usage"])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_steps_need_repetition(by: str, steps: int) -> None:
    loop = Loop()
    for _ in range(steps):
        loop.step(layers=1)
    assert loop.find(by)[0] == []


def test_flat_and_tiny_traces_have_no_steps() -> None:
    for events in range(1, 6):
        loop = Loop()
        for _ in range(events):
            loop.made.event("snapshot", 0, 0)
        assert [loop.find(by)[0] for by in ("stacks", "sizes", "usage")] == [[], [], []]


def test_many_stacks_may_mark_the_same_step() -> None:
    loop = Loop()
    for _ in range(5):
        for n in range(200):
            loop.use(f"once{n}")
    cuts, score, members = loop.find()
    assert (len(cuts), members) == (5, 200)
    assert score > 0.75


@given(seed=st.lists(st.integers(0, 6), max_size=120))
def test_cuts_are_valid_for_any_order_of_stacks(seed: list[int]) -> None:
    loop = Loop()
    for n in seed:
        loop.use(f"f{n}", (n + 1) * KIB)
    for by in ("stacks", "sizes", "usage"):
        cuts, score, members = loop.find(by)
        assert cuts == sorted(set(cuts))
        assert 0 <= score <= 1
        if by == "stacks" and cuts:
            # Find the stack that starts each round, and those that occur once in each round, by
            # brute force.
            order = [f"f{n}" for n in seed]
            at = [cut // 3 for cut in cuts]
            assert len({order[i] for i in at}) == 1
            rounds = [order[a + 1 : b] for a, b in pairwise(at)]
            every = [n for n in set(order) if all(r.count(n) == 1 for r in rounds)]
            assert len(every) + 1 >= members >= 3


def test_invalid_arguments_are_rejected() -> None:
    made = replay(SnapshotBuilder().alloc(1 << 20, 8))
    with pytest.raises(ValueError, match="moons"):
        _growth.find_period(made, _timeline.requested_measure(made).usage(), 0, "moons")
    with pytest.raises(ValueError, match="one i64 per event"):
        _growth.find_period(made, made.match(), 0, "stacks")
