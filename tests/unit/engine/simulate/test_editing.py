"""editing: a program edited before its simulation matches the model's run of the edited program."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay import _core
from memreplay.engine.query._vectors import vector
from memreplay.engine.replay._timeline import requested_measure
from memreplay.engine.simulate import _simulating
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB, Block
from tests.allocator_strategies import SETTINGS
from tests.build import Snapshot, SnapshotBuilder
from tests.simulated import BASE, Placed, Run, as_run, dumped, rules

CAPACITY = 80 * GIB
ADDED = 1 << 20  # numbers of additions start here
FREE_REQUESTED = _core.ACTIONS.index("free_requested")
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


class Rewritten:
    """A program with random changes, and the same changes as columns."""

    def __init__(self, ops: list[Op], rng: random.Random) -> None:
        self.ops, self.rng = ops, rng
        self.made = [at for at, op in enumerate(ops) if op.size]
        self.ends = {op.number: at for at, op in enumerate(ops) if not op.size}
        self.found: list[Op] = []
        self.calls: list[tuple[int, int, bool]] = []  # op, owner, whether it makes it
        self.added: list[tuple[int, int]] = []  # the op that it's like, size
        self.sizes = {op.number: op.size for op in ops if op.size}
        self.live: set[int] = set()
        self.freed: set[int] = set()
        for number in self.sizes:
            if rng.random() < 0.4:
                self.sizes[number] = rng.choice((0, 700, MIB, 30 * MIB))
        for at, op in enumerate(ops):
            self.call_before(at)
            if op.size and self.sizes[op.number]:
                self.make(op.number)
            elif not op.size and op.number in self.live:
                self.drop(op.number)
        self.call_before(len(ops))

    def make(self, number: int) -> None:
        self.found.append(Op(number, self.size(number)))
        self.live.add(number)

    def drop(self, number: int) -> None:
        self.found.append(Op(number))
        self.live.discard(number)

    def size(self, number: int) -> int:
        if number < ADDED:
            return self.sizes[number]
        return self.added[number - ADDED][1]

    def call_before(self, at: int) -> None:
        """Free something, make it again, or add something."""
        before = [one for one in self.made if one < at]
        while before and self.rng.random() < 0.4:
            which = self.rng.random()
            if which < 0.4 and self.live:
                number = self.rng.choice(sorted(self.live))
                self.calls.append((at, number, False))
                self.drop(number)
                self.freed.add(number)
            elif which < 0.7 and self.freed - self.live:
                number = self.rng.choice(sorted(self.freed - self.live))
                self.calls.append((at, number, True))
                self.make(number)
            else:
                self.added.append((self.rng.choice(before), self.rng.choice((900, 5 * MIB))))
                self.calls.append((at, ADDED + len(self.added) - 1, True))
                self.make(ADDED + len(self.added) - 1)

    def columns(self, replay: mr.Replay) -> _simulating.Changed:
        """Return the changes as columns. Event numbers are found by the order of events."""
        actions = replay.vector("action", "B").tolist()
        allocs = [at for at, one in enumerate(actions) if one == _core.ACTIONS.index("alloc")]
        frees = [at for at, one in enumerate(actions) if one == FREE_REQUESTED]
        made, ended = iter(allocs), iter(frees)
        event = [next(made) if op.size else next(ended) for op in self.ops]
        event.append(replay.events)
        of_number = {op.number: event[at] for at, op in enumerate(self.ops) if op.size}
        sizes = [-1] * replay.events
        for number, size in self.sizes.items():
            sizes[of_number[number]] = size
        owners = [
            of_number[number] if number < ADDED else replay.events + number - ADDED
            for _, number, _ in self.calls
        ]
        return _simulating.Changed(
            replay.holding,
            vector(sizes),
            vector([event[at] for at, _, _ in self.calls]),
            vector(owners),
            vector([makes for _, _, makes in self.calls]),
            vector([event[at] for at, _ in self.added]),
            vector([size for _, size in self.added]),
        )


@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(2, 60),
)
def test_changed_program_matches_a_run_of_it(name: str, seed: int, steps: int) -> None:
    ops = program(seed, steps)
    snapshot, _ = run(ops, name)
    rewritten = Rewritten(ops, random.Random(seed))
    _, want = run(rewritten.found, name)
    replay = mr.open(build.dump(snapshot)).replay(0)
    known = rules(replace(SETTINGS[name], capacity=CAPACITY))
    found = _simulating.Simulation(
        replay.blocks, replay.holding, changed=rewritten.columns(replay), **known
    )
    assert as_run(found) == want


def test_columns_that_make_no_sense_are_refused() -> None:
    made = SnapshotBuilder().alloc(2**40, 512).free(2**40, 512)
    replay = mr.open(build.dump(made.build())).replay(0)

    def changed(*columns: list[int]) -> _simulating.Changed:
        return _simulating.Changed(replay.holding, *map(vector, columns))

    none: list[int] = []
    for message, columns in {
        "sizes needs one number per event": ([1], none, none, none, none, none),
        "different lengths": ([-1] * 3, [1], none, none, none, none),
        "an addition needs bytes and an alloc event": ([-1] * 3, none, none, none, [1], [5]),
        "calls must be in the order of events": ([-1] * 3, [2, 1], [0, 0], [0, 1], none, none),
        "an owner is an alloc event or an addition": ([-1] * 3, [1], [1], [0], none, none),
    }.items():
        with pytest.raises(ValueError, match=message):
            changed(*columns)
    other = mr.open(build.dump(SnapshotBuilder().alloc(2**40, 512).build())).replay(0)
    with pytest.raises(ValueError, match="changed belongs to another replay"):
        _simulating.Simulation(
            other.blocks,
            other.holding,
            changed=changed([-1] * 3, none, none, none, none, none),
            **rules(SETTINGS["default"]),
        )


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
