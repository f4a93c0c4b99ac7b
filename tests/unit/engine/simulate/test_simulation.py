"""simulation: a recording simulated with other allocator settings matches the slow model."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.simulate import _simulating
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB
from tests.allocator_strategies import SETTINGS
from tests.build import SnapshotBuilder
from tests.simulated import BASE, Placed, Run, dumped, modelled, rules, simulated

NAMES = st.sampled_from(list(SETTINGS))
ROOMY = {name: replace(one, capacity=80 * GIB) for name, one in SETTINGS.items()}


@given(
    name=NAMES,
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(20, 250),
    reuses=st.booleans(),
)
def test_recorded_settings_reproduce_the_recording(
    name: str, seed: int, steps: int, reuses: bool
) -> None:
    """Every driver call matches in position, size and order, and so do the last block and the
    failures.
    """
    settings = SETTINGS[name]
    snapshot, want = modelled(settings, seed, steps, reuses=reuses)
    assert simulated(snapshot, settings, settings, reuses=reuses) == want


@given(recorded=NAMES, other=NAMES, seed=st.integers(0, 2**32 - 1), steps=st.integers(20, 250))
def test_other_settings_match_the_program(recorded: str, other: str, seed: int, steps: int) -> None:
    """The card is large enough. The program never empties its cache, because that leaves no event
    if nothing is freed.
    """
    assume(ROOMY[recorded].npu == ROOMY[other].npu)
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
def test_late_recording_matches_the_program(name: str, seed: int, before: int, steps: int) -> None:
    """The simulation starts with carried-over memory. Only the driver knew the free addresses."""
    snapshot, want = modelled(ROOMY[name], seed, steps, before=before)
    assert told(simulated(snapshot, ROOMY[name], ROOMY[name])) == told(want)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crowded", "max split, crowded", "expandable"])
def test_late_recordings_mostly_match_under_memory_pressure(name: str) -> None:
    """The simulation doesn't know frees that were already waiting, or addresses of expandable
    segments.
    """
    settings, equal = SETTINGS[name], 0
    for seed in range(60):
        snapshot, want = modelled(settings, seed, 20 + 3 * seed, before=200 - 3 * seed)
        equal += told(simulated(snapshot, settings, settings)) == told(want)
    assert equal >= 57


def told(run: Run) -> tuple[list[tuple[str, int]], int, int]:
    """Return the calls without addresses, which a driver assigns by its own rules."""
    return [(action, size) for action, _, size in run.calls], run.peak, run.ooms


def test_smaller_card_fails_where_the_program_would() -> None:
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


def aged(address: int) -> mr.Replay:
    """Build two half-free segments, the older one at the higher address. A request for half a
    segment gets the block at this address.
    """
    low, high = 2**40, 2**40 + 2 * MIB
    b = SnapshotBuilder().segment_alloc(low, 2 * MIB).alloc(low, MIB)
    b.alloc(low + MIB, MIB).segment_alloc(high, 2 * MIB).alloc(high, MIB)
    b.free(low, MIB).free(low + MIB, MIB).segment_free(low, 2 * MIB, frames=[("empty", "a.py", 9)])
    b.alloc(high + MIB, MIB).segment_alloc(low, 2 * MIB).alloc(low, MIB)
    b.free(high + MIB, MIB).alloc(address, MIB)
    return mr.open(build.dump(b.build())).replay(0)


@pytest.mark.parametrize("lowest_first", [False, True])
def test_recorded_choice_among_equal_blocks_wins(lowest_first: bool) -> None:
    """Newer versions of PyTorch take the oldest segment, older ones the lowest address."""
    low, high = 2**40, 2**40 + 2 * MIB
    replay = aged(low + MIB if lowest_first else high + MIB)
    known = rules(ROOMY["default"])
    first, second = (
        _simulating.Simulation(replay.blocks, replay.holding, **known | {"reuses": reuses})
        for reuses in (lowest_first, not lowest_first)
    )
    assert (first.reuses, first.misplaced) == (lowest_first, 0)
    assert (second.reuses, second.misplaced) == (not lowest_first, 1)
    assert replay.recorded.own.reuses == lowest_first
    assert replay.recorded.reproduced


def test_garbage_collected_cache_is_not_an_empty_cache_call() -> None:
    """The call site that frees the segment also makes a request, and memory was sufficient."""
    here: dict[str, Any] = {"frames": [("ask", "a.py", 1)]}
    b = SnapshotBuilder().segment_alloc(2**40, 50 * MIB).alloc(2**40, 50 * MIB)
    b.free(2**40, 50 * MIB).segment_free(2**40, 50 * MIB, **here)
    b.segment_alloc(2**41, 60 * MIB, **here).alloc(2**41, 60 * MIB, **here)
    replay = mr.open(build.dump(b.build())).replay(0)
    known = rules(ROOMY["default"]) | {"recorded_limit": 200 * MIB}

    def peak(**more: int) -> tuple[int, int]:
        found = _simulating.Simulation(replay.blocks, replay.holding, **known | more)
        return found.reserved_peak[0], found.recorded_retries

    assert peak() == (110 * MIB, 1)  # the call site makes another request, for another reason
    assert peak(recorded_collect_from=40 * MIB) == (110 * MIB, 0)
    assert peak(recorded_collect_from=50 * MIB) == (
        60 * MIB,
        0,
    )  # isn't garbage collected
    assert peak(recorded_limit=109 * MIB) == (110 * MIB, 1)  # memory was short
    collecting = {"recorded_collect_from": 40 * MIB, "collect_from": 40 * MIB}
    assert peak(**collecting) == (60 * MIB, 0)


def test_completed_frees_may_suffice_for_an_expandable_segment() -> None:
    """If completed frees suffice, nothing is mapped for the request, but it's still a retry."""
    settings = replace(SETTINGS["expandable"], capacity=40 * MIB)
    machine = Machine(settings)
    device = machine.devices[0] = Placed(settings, BASE)
    device.malloc(3 * MIB // 2, stack=(("begin", "a.py", 1),))
    large = device.malloc(30 * MIB, stack=(("large", "a.py", 2),))
    assert large
    device.record_stream(large, 1)
    device.free(large, (("free", "a.py", 3),))
    assert device.malloc(15 * MIB, stack=(("again", "a.py", 4),))
    snapshot, want = dumped(machine)
    assert [name for name, *_ in want.calls] == ["segment_map", "segment_map", "segment_unmap"]
    assert simulated(snapshot, settings, settings) == want
    replay = mr.open(build.dump(snapshot)).replay(0)
    recorded = replay.recorded
    assert recorded.reproduced
    assert (recorded.own.retries, recorded.own.recorded_retries) == (1, 1)
    roomy = simulated(snapshot, settings, ROOMY["expandable"])
    assert [name for name, *_ in roomy.calls] == ["segment_map"] * 3


@pytest.mark.parametrize("capacity", [70 * MIB, 99 * MIB])
def test_retried_requests_show_the_size_of_the_card(capacity: int) -> None:
    """The size is an upper bound: 40 MiB were reserved, and 60 more weren't available."""
    settings = replace(SETTINGS["default"], capacity=capacity)
    machine = Machine(settings)
    device = machine.devices[0] = Placed(settings, BASE)
    first = device.malloc(40 * MIB, stack=(("first", "a.py", 1),))
    assert first
    device.free(first, (("free", "a.py", 2),))
    assert device.malloc(60 * MIB, stack=(("again", "a.py", 3),))
    snapshot, want = dumped(machine)
    replay = mr.open(build.dump(snapshot)).replay(0)
    recorded = replay.recorded
    assert (recorded.program_memory_bytes, recorded.total_inferred) == (100 * MIB - 1, True)
    assert recorded.reproduced
    assert (recorded.outcome.alloc_retries, recorded.outcome.reserved_peak_bytes) == (1, want.peak)
    assert replay.simulate().reasons == ()
    other = replay.simulate("max_split_size_mb:40")
    assert (other.outcome.alloc_retries, other.reasons) == (1, ("total_inferred",))
    assert replay.simulate(program_memory=100 * MIB).outcome.alloc_retries == 0


@pytest.mark.parametrize(
    "pool, stream, gives_back",
    [((0, 0), 0, True), ((0, 1), 0, True), ((0, 1), 5, False), ((1, 0), 5, False)],
)
def test_nothing_is_freed_during_a_capture(
    pool: tuple[int, int], stream: int, gives_back: bool
) -> None:
    b = SnapshotBuilder().segment_alloc(2**40, 50 * MIB).alloc(2**40, 50 * MIB)
    b.free(2**40, 50 * MIB)
    where: dict[str, Any] = {"pool_id": pool, "stream": stream}
    b.segment_alloc(2**41, 60 * MIB, **where).alloc(2**41, 60 * MIB, **where)
    replay = mr.open(build.dump(b.build())).replay(0)
    known = rules(replace(SETTINGS["default"], capacity=70 * MIB))
    found = _simulating.Simulation(replay.blocks, replay.holding, **known)
    assert (found.failed() == [], found.retries) == (gives_back, gives_back)


def test_invalid_arguments_are_refused() -> None:
    first, second = (
        mr.open(build.dump(SnapshotBuilder().alloc(2**40, at).build())).replay(0) for at in (1, 2)
    )
    known = rules(SETTINGS["default"])
    with pytest.raises(ValueError, match="another replay"):
        _simulating.Simulation(first.blocks, second.holding, **known)
    with pytest.raises(ValueError, match="one number per power of two"):
        _simulating.Simulation(first.blocks, first.holding, **known | {"divisions": (1,)})
    for name in ("large_segment", "space"):
        with pytest.raises(ValueError, match="size must be positive"):
            _simulating.Simulation(first.blocks, first.holding, **known | {name: 0})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "expandable"])
def test_hundreds_of_free_blocks_stay_ordered(name: str) -> None:
    """One part of the set in which free blocks are searched can't hold all of them."""
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
