"""editing: a program edited before its simulation matches the model's run of the edited program."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.replay._timeline import requested_measure
from memreplay.engine.simulate import _simulating
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB, Block
from tests.allocator_strategies import SETTINGS
from tests.build import Snapshot, SnapshotBuilder
from tests.simulated import BASE, Placed, Run, as_run, dumped, rules

CAPACITY = 80 * GIB
NAMES = ("default", "expandable", "max split", "roundup")


class Op(NamedTuple):
    """An allocation of this many bytes or, without bytes, the free of the allocation with this
    number.
    """

    number: int
    size: int = 0


def program(seed: int, steps: int, *, failing: float = 0) -> list[Op]:
    rng = random.Random(seed)
    live: list[int] = []
    ops: list[Op] = []
    for number in range(steps):
        if live and rng.random() < 0.45:
            ops.append(Op(live.pop(rng.randrange(len(live)))))
        if rng.random() < failing:
            ops.append(Op(-1, 2 * CAPACITY))
        ops.append(Op(number, rng.choice((700, 60_000, MIB, 3 * MIB, 12 * MIB, 30 * MIB))))
        live.append(number)
    return ops + [Op(number) for number in live if rng.random() < 0.6]


def run(ops: list[Op], name: str) -> tuple[Snapshot, Run]:
    settings = replace(SETTINGS[name], capacity=CAPACITY)
    machine = Machine(settings)
    device = machine.devices[0] = Placed(settings, BASE)
    blocks: dict[int, Block] = {}
    for line, op in enumerate(ops):
        stack = (("call", "program.py", line),)
        if op.size:
            made = device.malloc(op.size, 0, stack)
            if op.size > CAPACITY:
                continue
            assert made is not None
            blocks[op.number] = made
        else:
            device.free(blocks.pop(op.number), stack)
    return dumped(machine)


def simulated(
    snapshot: Snapshot, name: str, least: int, *, factor: float = 1.0, twice: bool = False
) -> Run:
    replay = mr.open(build.dump(snapshot)).replay(0)
    chosen = requested_measure(replay.native).narrow(least, False, False)
    known = rules(replace(SETTINGS[name], capacity=CAPACITY))
    return as_run(
        _simulating.Simulation(
            replay.blocks, replay.holding, edited=chosen, factor=factor, twice=twice, **known
        )
    )


@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(2, 120),
    least=st.sampled_from((1, MIB, 10 * MIB)),
    factor=st.sampled_from((0.0, 0.25, 0.5, 1.0, 1.7, 3.0)),
)
def test_resized_allocations_match_a_run_with_those_sizes(
    name: str, seed: int, steps: int, least: int, factor: float
) -> None:
    ops = program(seed, steps)
    snapshot, _ = run(ops, name)
    sizes = {op.number: op.size for op in ops if op.size}
    gone = {number for number, size in sizes.items() if size >= least and factor == 0}
    changed = [
        Op(op.number, int(op.size * factor + 0.5) if op.size >= least else op.size)
        for op in ops
        if op.number not in gone
    ]
    _, want = run(changed, name)
    assert simulated(snapshot, name, least, factor=factor) == want


@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(2, 120),
    least=st.sampled_from((1, MIB, 10 * MIB)),
    failing=st.sampled_from((0.0, 0.05, 0.5)),
)
def test_allocations_made_twice_match_a_run_that_does_the_same(
    name: str, seed: int, steps: int, least: int, failing: float
) -> None:
    ops = program(seed, steps, failing=failing)
    snapshot, _ = run(ops, name)
    _, want = run(twice(ops, least), name)
    assert simulated(snapshot, name, least, twice=True) == want


def twice(ops: list[Op], least: int) -> list[Op]:
    """Free each allocation once the next one is made, and make it again shortly before its original
    free, unless that free directly follows a failed request.
    """
    made = [at for at, op in enumerate(ops) if 0 < op.size <= CAPACITY]
    failed = [at for at, op in enumerate(ops) if op.size > CAPACITY]
    ends = {op.number: at for at, op in enumerate(ops) if not op.size}
    after: dict[int, list[Op]] = {}
    before: dict[int, list[Op]] = {}
    for k, at in enumerate(made):
        op = ops[at]
        end = ends.get(op.number, len(ops))
        last = max((n for n, other in enumerate(made) if other < end), default=-1)
        again = op.number in ends and not any(made[last] < at < end for at in failed)
        if op.size < least or last < k + 1 + again:
            continue
        after.setdefault(made[k + 1], []).append(Op(op.number))
        if again:
            before.setdefault(made[last], []).append(op)
    found = []
    for at, op in enumerate(ops):
        found += [*before.get(at, ()), op, *after.get(at, ())]
    return found


def test_failed_request_is_judged_without_what_its_error_frees() -> None:
    # Four inputs for a backward pass that never comes, because the next request fails.
    b = SnapshotBuilder()
    blocks = [(2**40 + at * 20 * MIB, 20 * MIB) for at in range(4)]
    for address, size in blocks:
        b.segment_alloc(address, size).alloc(address, size)
    b.oom(40 * MIB)
    for address, size in blocks:
        b.free(address, size)
    replay = mr.open(build.dump(b.build())).replay(0)
    chosen = requested_measure(replay.native).narrow(1, False, False)
    known = rules(replace(SETTINGS["default"], capacity=80 * MIB))

    def found(**more: Any) -> tuple[int, list[int]]:
        one = _simulating.Simulation(replay.blocks, replay.holding, **known, **more)
        return one.requested_peak[0], one.failed()

    assert found() == (80 * MIB, [8])
    # Only the newest allocation is still live, and the request succeeds.
    assert found(edited=chosen, twice=True) == (60 * MIB, [])


def test_carried_over_memory_is_left_out() -> None:
    b = SnapshotBuilder()
    held = [b.block(2**40, 15 * MIB), b.block(2**40 + 15 * MIB, 5 * MIB, state="inactive")]
    b.segment(2**40, 20 * MIB, blocks=held)
    b.alloc(2**40 + 15 * MIB, 3 * MIB).free(2**40 + 15 * MIB, 3 * MIB)
    replay = mr.open(build.dump(b.build())).replay(0)
    known = rules(SETTINGS["default"])

    def left(**more: Any) -> tuple[int, int]:
        found = _simulating.Simulation(replay.blocks, replay.holding, **known, **more)
        return found.requested_peak[0], found.reserved_peak[0]

    chosen = requested_measure(replay.native).narrow(10 * MIB, False, False)
    assert left() == (18 * MIB, 20 * MIB)
    assert left(edited=chosen, factor=0.0) == (3 * MIB, 20 * MIB)
    assert left(edited=chosen, factor=0.5) == (18 * MIB, 20 * MIB)


def test_invalid_arguments_are_refused() -> None:
    first, second = (
        mr.open(build.dump(SnapshotBuilder().alloc(2**40, at).build())).replay(0) for at in (1, 2)
    )
    known = rules(SETTINGS["default"])
    with pytest.raises(ValueError, match="edited belongs to another replay"):
        _simulating.Simulation(
            first.blocks, first.holding, edited=requested_measure(second.native), **known
        )
    for factor in (-0.5, float("nan"), 1e9):
        with pytest.raises(ValueError, match="factor must be 0 or more"):
            _simulating.Simulation(first.blocks, first.holding, factor=factor, **known)
