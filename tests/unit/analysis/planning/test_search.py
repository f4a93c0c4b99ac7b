"""Tests of analysis/planning/search.py: plans, compared with trying every lever by itself."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest

from memreplay.analysis.planning.lever import Recording
from memreplay.analysis.planning.search import MOST_PLANS, ROOM, Search, cost_of
from tests.unit.analysis.planning.training import (
    MIB,
    Block,
    Operation,
    recorded,
    recording_of,
    trained,
)

SIZES = (150, 170, 190, 220, 260, 300, 360, 420)  # MiB


@pytest.fixture(scope="module", params=(10, 60, 100))
def recording(request: pytest.FixtureRequest) -> Recording:
    return recorded(to_none=request.param != 60, block=request.param)


def fits(recording: Recording, search: Search, lever: object, limit: int) -> bool:
    """Return whether a lever by itself is enough, by a simulation."""
    effect = getattr(lever, "effect", None)
    assert effect is not None
    program = search.program.with_effect(effect)
    room = int(limit * (1 - ROOM))
    found = recording.replay.simulate(program_memory=room, edit=program.edit(recording.replay))
    return found.fits


@pytest.mark.parametrize("limit", SIZES)
def test_no_cheaper_lever_is_missed(recording: Recording, limit: int) -> None:
    search = Search(recording, limit * MIB, measured=False)
    enough = [one for one in search.levers if fits(recording, search, one, limit * MIB)]
    plans = search.plans()
    assert len(plans) <= MOST_PLANS
    if enough:
        assert plans
        assert plans[0].cost <= min(cost_of((one,)) for one in enough)
    for plan in plans:
        assert plan.simulated.fits
        program = search.applied(plan.levers)
        assert program.peak() == plan.requested_bytes <= limit * MIB
    assert [one.cost for one in plans] == sorted(one.cost for one in plans)


def test_lower_bound_is_what_is_live_together(recording: Recording) -> None:
    floor = Search(recording, 1 << 40, measured=False).floor()
    assert floor.bytes == 160 * MIB
    assert floor.category_bytes == {
        "parameters": 40 * MIB,
        "gradients": 40 * MIB,
        "optimizer state": 80 * MIB,
    }


def test_combinations_are_found_if_no_lever_is_enough() -> None:
    # Half of the memory are activations, the other half parameters with gradients and state.
    found = Search(recorded(block=100), 170 * MIB, measured=False).plans()
    assert found
    assert all(len(one.levers) > 1 for one in found)
    names = {lever.name for one in found for lever in one.levers}
    assert names & {"checkpoint", "accumulate"}
    assert names & {"offload-state", "optimizer", "shard"}


def test_tradeoffs_have_less_memory_for_more_cost() -> None:
    search = Search(recorded(block=100), 250 * MIB, measured=False)
    search.plans()
    found = search.tradeoffs()
    assert len(found) > 2
    for before, after in pairwise(found):
        assert before.requested_bytes > after.requested_bytes
        assert cost_of(before.levers) < cost_of(after.levers)


def test_unneeded_modules_are_not_recomputed() -> None:
    blocks = [Block((Operation(size * MIB, saved=True),), MIB) for size in (1, 2, 200, 1)]
    recording = recording_of(trained(blocks).snapshot())
    first = Search(recording, 450 * MIB, measured=False).plans()
    assert not first or first[0].cost.time < 0.34


# Each block's operations (size in MiB, whether it's saved, workspace) and the size of its output.
UNEVEN = (
    (((52, True, 0), (52, False, 31)), 22),
    (((40, False, 0), (40, True, 7)), 8),
    (((40, True, 0),), 2),
    (((23, True, 0), (5, True, 7), (40, True, 0)), 22),
)
EQUAL = ((((3, True, 7), (52, True, 7), (40, True, 7)), 37),) * 3
SMALL = ((((11, True, 0), (5, False, 7)), 2),) * 4


@pytest.mark.parametrize("sizes", [UNEVEN, EQUAL, SMALL])
def test_no_cheaper_set_of_modules_is_missed(sizes: tuple[Any, ...]) -> None:
    # The allocator's fragmentation decides, of which the peaks of requested bytes say nothing.
    blocks = [
        Block(
            tuple(Operation(size * MIB, saved, space=space * MIB) for size, saved, space in some),
            output * MIB,
        )
        for some, output in sizes
    ]
    recording = recording_of(trained(blocks).snapshot())
    replay, top = recording.replay, recording.program().peak()
    for percent in range(50, 100, 5):
        search = Search(recording, top * percent // 100, measured=False)
        assert search.units is not None
        plans = search.plans()
        for count in range(1, len(blocks) + 1):
            for some in combinations(search.units.all, count):
                lever = search.recomputing(some)
                edit = search.applied((lever,)).edit(replay)
                room = int(search.limit * (1 - ROOM))
                if replay.simulate(program_memory=room, edit=edit).fits:
                    assert plans, (percent, lever.argument)
                    assert plans[0].cost <= cost_of((lever,)), (percent, lever.argument)
