"""simulation: a program's recording on an allocator of other settings, against the slow model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.simulate import _simulating
from tests import build
from tests.allocator import GIB, MIB, Machine
from tests.allocator_strategies import SETTINGS
from tests.build import SnapshotBuilder
from tests.simulated import BASE, Placed, Run, dumped, modelled, rules, simulated

NAMES = st.sampled_from(list(SETTINGS))
ROOMY = {name: replace(one, capacity=80 * GIB) for name, one in SETTINGS.items()}


@given(name=NAMES, seed=st.integers(0, 2**32 - 1), steps=st.integers(20, 250))
def test_its_own_settings_give_the_same_again(name: str, seed: int, steps: int) -> None:
    """Each call of the driver, in place, size and order; the last block; the failures, too."""
    settings = SETTINGS[name]
    snapshot, want = modelled(settings, seed, steps)
    assert simulated(snapshot, settings, settings) == want


@given(recorded=NAMES, other=NAMES, seed=st.integers(0, 2**32 - 1), steps=st.integers(20, 250))
def test_other_settings_give_what_the_program_gets_with_them(
    recorded: str, other: str, seed: int, steps: int
) -> None:
    """Where memory suffices. An emptied cache of which nothing went leaves no event."""
    without = ("empty cache",)
    snapshot, _ = modelled(ROOMY[recorded], seed, steps, without)
    _, want = modelled(ROOMY[other], seed, steps, without)
    assert simulated(snapshot, ROOMY[recorded], ROOMY[other]) == want


@given(
    name=st.sampled_from(["default", "roundup", "roundup by interval", "max split"]),
    seed=st.integers(0, 2**32 - 1),
    before=st.integers(1, 200),
    steps=st.integers(20, 200),
)
def test_a_recording_that_begins_late(name: str, seed: int, before: int, steps: int) -> None:
    """It begins with what was there; where addresses are free only the driver knew."""
    snapshot, want = modelled(ROOMY[name], seed, steps, before=before)
    assert told(simulated(snapshot, ROOMY[name], ROOMY[name])) == told(want)


@pytest.mark.parametrize("name", ["crowded", "max split, crowded", "expandable"])
def test_most_recordings_that_begin_late_in_want_of_memory(name: str) -> None:
    """Frees that waited before it, and addresses of expandable segments, it does not tell."""
    settings, equal = SETTINGS[name], 0
    for seed in range(60):
        snapshot, want = modelled(settings, seed, 20 + 3 * seed, before=200 - 3 * seed)
        equal += told(simulated(snapshot, settings, settings)) == told(want)
    assert equal >= 57


def told(run: Run) -> tuple[list[tuple[str, int]], int, int]:
    """Without addresses, which a driver hands out by rules of its own."""
    return [(action, size) for action, _, size in run.calls], run.peak, run.ooms


def test_a_smaller_card_fails_where_the_program_would() -> None:
    b = SnapshotBuilder().segment_alloc(2**40, 20 * MIB).alloc(2**40, 15 * MIB)
    b.segment_alloc(2**40 + 20 * MIB, 30 * MIB).alloc(2**40 + 20 * MIB, 30 * MIB)
    b.free(2**40 + 20 * MIB, 30 * MIB).free(2**40, 15 * MIB)
    replay = mr.open(build.dump(b.build())).replay(0)
    settings = SETTINGS["default"]

    def on(total: int) -> _simulating.Simulation:
        known = rules(replace(settings, capacity=total))
        return _simulating.Simulation(replay.blocks, replay.holding, **known)

    small, enough = on(45 * MIB), on(46 * MIB)
    assert (small.failed(), small.stopped_at, small.retries) == ([3], 3, 1)
    assert small.reserved_peak == (16 * MIB, 1)
    assert (enough.failed(), enough.stopped_at) == ([], None)
    assert enough.reserved_peak == (46 * MIB, 3)
    assert enough.active_peak == (46 * MIB, 3)  # the first block is not split
    assert enough.driver_allocs == 2
    assert enough.mapped_ranges == 2


def test_what_is_refused() -> None:
    first, second = (
        mr.open(build.dump(SnapshotBuilder().alloc(2**40, at).build())).replay(0) for at in (1, 2)
    )
    known = rules(SETTINGS["default"])
    with pytest.raises(ValueError, match="another replay"):
        _simulating.Simulation(first.blocks, second.holding, **known)
    with pytest.raises(ValueError, match="a number a power of two"):
        _simulating.Simulation(first.blocks, first.holding, **known | {"divisions": (1,)})
    for name in ("large_segment", "space"):
        with pytest.raises(ValueError, match="have a size"):
            _simulating.Simulation(first.blocks, first.holding, **known | {name: 0})


@pytest.mark.parametrize("name", ["default", "expandable"])
def test_hundreds_of_free_blocks_lie_in_their_order(name: str) -> None:
    """More than fit into one piece of the set that they are looked for in."""
    settings, rng = ROOMY[name], random.Random(5)
    machine = Machine(settings)
    device = machine.devices[0] = Placed(settings, BASE)
    live = [device.malloc(rng.randint(1, 2**20)) for _ in range(1200)]
    for block in live[::2]:
        assert block is not None
        device.free(block)
    for _ in range(900):
        device.malloc(rng.randint(1, 2**20))
    snapshot, want = dumped(machine)
    most = sum(block.free for area in device.all_areas() for block in area.blocks)
    assert most > 400
    assert simulated(snapshot, settings, settings) == want
