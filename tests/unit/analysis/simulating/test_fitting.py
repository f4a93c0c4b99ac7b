"""Tests of analysis/simulating/fitting.py, against every size of a card."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.simulating.fitting import STEP, smallest
from memreplay.analysis.simulating.searching import candidates, cost
from memreplay.snapshot.alloc_conf import AllocatorSettings
from tests.allocator import MIB
from tests.build import SnapshotBuilder
from tests.simulated import BASE
from tests.unit.analysis.simulating.programs import least_of, mixed, replayed, scattered

SEEDS = range(12)


def fits(replay: mr.Replay, settings: AllocatorSettings) -> set[int]:
    """Every number of steps that suffices, up to what it takes with all the memory there is."""
    most = replay.simulate(settings, total_bytes=1 << 50).outcome.reserved_peak_bytes // STEP + 1
    return {
        n
        for n in range(1, most + 1)
        if not replay.simulate(settings, total_bytes=n * STEP).failed_events
    }


@pytest.mark.parametrize("text", ["", "expandable_segments:True", "max_split_size_mb:20"])
@pytest.mark.parametrize("seed", SEEDS)
def test_it_fits_then_and_with_2_mib_less_it_does_not(seed: int, text: str) -> None:
    replay = replayed(mixed(seed))
    settings = replay.simulate(text).settings
    found = smallest(replay, settings)
    enough = fits(replay, settings)
    steps = found.total_bytes // STEP
    assert (found.settings, found.total_bytes % STEP) == (settings, 0)
    assert steps in enough
    assert steps - 1 not in enough
    if len(enough) == max(enough) - min(enough) + 1:  # nothing fails above what suffices
        assert steps == min(enough)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.97])
@pytest.mark.parametrize("other", ["", ",garbage_collection_threshold:0.6"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_what_has_a_part_of_the_card_needs_a_larger_one(seed: int, other: str, part: float) -> None:
    replay = replayed(mixed(seed))
    whole = smallest(replay, replay.settings).total_bytes
    settings = replay.simulate(
        f"per_process_memory_fraction:{part}{other}", total_bytes=1 << 40
    ).settings
    for found in (smallest(replay, settings), least_of(replay, settings)):
        total = found.total_bytes
        assert replay.simulate(found.settings, total_bytes=total).fits
        assert not replay.simulate(found.settings, total_bytes=total - STEP).fits
    if not other:
        need = smallest(replay, settings).total_bytes
        assert abs(need * part - whole) <= STEP


def test_a_program_that_may_have_nothing() -> None:
    replay = replayed(mixed(3))
    settings = replay.simulate("per_process_memory_fraction:0", total_bytes=1 << 40).settings
    with pytest.raises(mr.UsageError, match="fraction:0 no card is large enough"):
        smallest(replay, settings)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_of_all(seed: int) -> None:
    replay = replayed(mixed(seed, steps=40))
    start = replay.settings
    found = least_of(replay, start)
    each = {one: smallest(replay, one).total_bytes for one in candidates(start)}
    assert found.total_bytes == min(each.values()) <= smallest(replay, start).total_bytes
    assert each[found.settings] == found.total_bytes
    if each[start] == found.total_bytes:
        assert found.settings == start
        return
    # Of equal ones the best.
    costs = {
        one: cost(replay.simulate(one, total_bytes=least), start)
        for one, least in each.items()
        if least == found.total_bytes
    }
    assert costs[found.settings] == min(costs.values())


def test_the_settings_are_those_that_need_least() -> None:
    replay = replayed(scattered())
    assert smallest(replay, replay.settings).total_bytes == (200 + 5 * 18) * MIB
    found = least_of(replay, replay.settings)
    assert found.settings.expandable
    assert found.total_bytes == 200 * MIB


def test_it_is_the_same_each_time() -> None:
    found = {least_of(replayed(mixed(3)), AllocatorSettings()) for _ in range(5)}
    assert len(found) == 1


def test_a_program_that_asks_for_nothing() -> None:
    b = SnapshotBuilder().free(BASE, MIB)
    replay = replayed(b.finish_segments().build())
    most = replay.simulate(total_bytes=1 << 50).outcome.reserved_peak_bytes
    assert smallest(replay, replay.settings).total_bytes == most
    assert least_of(replay, replay.settings).settings == replay.settings
