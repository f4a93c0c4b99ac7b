"""Tests of analysis/planning/search.py: plans, compared with trying every lever by itself."""

from __future__ import annotations

from itertools import pairwise

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
