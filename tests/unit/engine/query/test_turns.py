"""turns: runs of an optimizer's work, found by stack, match a slow scan of the stacks."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query import _growth
from tests.build import FrameSpec, SnapshotBuilder
from tests.unit.engine.replay.measured import replay

WRAPPER = ("wrapper", "/x/torch/optim/optimizer.py", 493)
MAIN = ("main", "train.py", 9)


def turns(made: SnapshotBuilder, *, zeroed: bool = False) -> list[int]:
    return memoryview(_growth.find_optimizer_steps(replay(made), zeroed)).tolist()


@pytest.mark.parametrize(
    "inner, found",
    [
        ([WRAPPER], True),
        ([("step", "/x/torch/optim/sgd.py", 3)], True),
        ([("step", "/x/bitsandbytes/optim/optimizer.py", 3)], True),
        ([("step", "/x/deepspeed/zero/stage3_optimizer.py", 3)], True),
        ([("wrapper", "/x/torch/optim/lr_scheduler.py", 3), WRAPPER], True),
        ([("_foreach", "adam.py", 1), WRAPPER], True),
        ([("step", "/x/torch/optim/lr_scheduler.py", 3)], False),
        ([("step", "/home/ana/game.py", 3)], False),
        ([("wrapper", "/home/ana/tools.py", 3)], False),
        ([("zero_grad", "/x/torch/optim/optimizer.py", 3)], False),
        ([("closure", "a.py", 1), WRAPPER], False),
        ([("forward", "a.py", 1), ("closure", "a.py", 1), WRAPPER], False),
        ([("work", "a.py", 1)], False),
        ([], False),
    ],
)
def test_optimizer_steps_are_found_by_stack(inner: list[FrameSpec], found: bool) -> None:
    made = SnapshotBuilder()
    for k in range(3):
        made.alloc((3 * k + 1) << 20, 512, frames=[("work", "a.py", 1), MAIN])
        made.alloc((3 * k + 2) << 20, 512, frames=[*inner, MAIN] if inner else [])
    assert turns(made) == ([2, 4, 6] if found else [])


def test_zero_grad_marks_steps_without_allocations() -> None:
    made = SnapshotBuilder()
    for _ in range(3):
        made.alloc(1 << 20, 512, frames=[("work", "a.py", 1), MAIN])
        frames = [("zero_grad", "o.py", 1), ("_fn", "/x/torch/_dynamo/eval_frame.py", 2), MAIN]
        made.free(1 << 20, 512, frames=frames)
    assert turns(made) == []
    assert turns(made, zeroed=True) == [3, 6, 9]


def of_lives(order: str) -> SnapshotBuilder:
    """Build steps. In each, a pass allocates memory and frees it (w), and an optimizer makes state
    (s), memory that it frees in the same step (t), or memory that the next step frees (n).
    """
    made = SnapshotBuilder()
    late: list[int] = []
    for k, one in enumerate(order):
        at = (k + 1) << 20
        frames: list[FrameSpec] = [("w", "a.py", 1)] if one == "w" else [WRAPPER, MAIN]
        made.alloc(at, 512, frames=frames)
        if one in "wt":
            made.free(at, 512, frames=frames)
        for old in late:
            made.free(old, 512, frames=frames)
        late = [at] if one == "n" else []
    return made


@pytest.mark.parametrize("order", ["wswwwswwws", "wsws", "wswwsw", "wtwwwswwws"])
def test_steps_that_only_create_optimizer_state_are_not_enough(order: str) -> None:
    """SGD with momentum does this when layers are unfrozen one by one."""
    assert turns(of_lives(order)) == []


@pytest.mark.parametrize(
    "order", ["wtwtwt", "wswtwt", "wswswt", "wnwnwn", "wswwwtwws", "ws", "wswww"]
)
def test_optimizer_steps_that_free_their_allocations_count(order: str) -> None:
    found = turns(of_lives(order))
    assert len(found) == sum(order.count(one) for one in "stn")


@given(st.lists(st.sampled_from("owg"), max_size=60))
def test_turns_match_brute_force(order: list[str]) -> None:
    """The letters are an optimizer (o), work (w), and memory without a stack (g), which counts as
    work.
    """
    made = SnapshotBuilder()
    frames: dict[str, list[FrameSpec]] = {"o": [WRAPPER, MAIN], "w": [("w", "a.py", 1)], "g": []}
    for k, one in enumerate(order):
        made.alloc((k + 1) << 20, 512, frames=frames[one])
    text = "".join(order).replace("g", "w")
    gaps = sorted(len(part) for part in text.strip("w").split("o") if part)
    least = 1
    if gaps:
        held, chosen = 0, 0
        for gap in reversed(gaps):
            if held * 10 >= sum(gaps) * 8:
                break
            held, chosen = held + gap, gap
        least = max(1, chosen // 4)
    ends, at = [], -1
    for k, one in enumerate(text):
        if one == "o":
            if at >= 0 and k - at - 1 >= least:
                ends.append(at + 1)
            at = k
    if at >= 0:
        ends.append(at + 1)
    assert turns(made) == ends


def test_many_functions_of_a_file_with_a_huge_name_take_little_time() -> None:
    builder = SnapshotBuilder()
    path = "a" * 1_000_000
    for i in range(6000):
        builder.alloc(0x1000 * (i + 1), 512, frames=[(f"f{i}", path, i + 1)])
    replayed = replay(builder)
    started = time.process_time()
    assert not memoryview(_growth.find_optimizer_steps(replayed, False)).tolist()
    assert time.process_time() - started < 1.5
