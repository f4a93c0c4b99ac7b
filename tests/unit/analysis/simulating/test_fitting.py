"""Tests of analysis/simulating/fitting.py: results match simulations of every card size."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.simulating.fitting import STEP, smallest
from memreplay.analysis.simulating.searching import candidates, cost
from memreplay.snapshot.alloc_conf import AllocatorSettings
from tests.allocator_blocks import MIB
from tests.build import SnapshotBuilder
from tests.simulated import BASE
from tests.unit.analysis.simulating.programs import least_of, mixed, replayed, scattered

SEEDS = range(12)


def fits(replay: mr.Replay, settings: AllocatorSettings) -> set[int]:
    """Return all sufficient card sizes up to the memory needed without a limit, in STEP units."""
    most = replay.simulate(settings, program_memory=1 << 50).outcome.reserved_peak_bytes // STEP + 1
    return {
        n
        for n in range(1, most + 1)
        if not replay.simulate(settings, program_memory=n * STEP).failed_events
    }


@pytest.mark.parametrize("text", ["", "expandable_segments:True", "max_split_size_mb:20"])
@pytest.mark.parametrize("seed", SEEDS)
def test_run_fits_and_fails_with_2_mib_less(seed: int, text: str) -> None:
    replay = replayed(mixed(seed))
    settings = replay.simulate(text).settings
    found = smallest(replay, settings)
    enough = fits(replay, settings)
    steps = found.program_memory_bytes // STEP
    assert (found.settings, found.program_memory_bytes % STEP) == (settings, 0)
    assert steps in enough
    assert steps - 1 not in enough
    if len(enough) == max(enough) - min(enough) + 1:  # every larger size fits, too
        assert steps == min(enough)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.97])
@pytest.mark.parametrize("other", ["", ",garbage_collection_threshold:0.6"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_fraction_limit_needs_a_larger_card(seed: int, other: str, part: float) -> None:
    replay = replayed(mixed(seed))
    whole = smallest(replay, replay.settings).program_memory_bytes
    settings = replay.simulate(
        f"per_process_memory_fraction:{part}{other}", program_memory=1 << 40
    ).settings
    for found in (smallest(replay, settings), least_of(replay, settings)):
        total = found.program_memory_bytes
        assert replay.simulate(found.settings, program_memory=total).fits
        assert not replay.simulate(found.settings, program_memory=total - STEP).fits
    if not other:
        need = smallest(replay, settings).program_memory_bytes
        assert abs(need * part - whole) <= STEP


def test_fraction_zero_fits_no_card() -> None:
    replay = replayed(mixed(3))
    settings = replay.simulate("per_process_memory_fraction:0", program_memory=1 << 40).settings
    with pytest.raises(mr.UsageError, match="fraction:0 for CUDA itself, no card is large enough"):
        smallest(replay, settings)


@pytest.mark.parametrize("seed", SEEDS)
def test_best_settings_match_a_search_of_all_candidates(seed: int) -> None:
    replay = replayed(mixed(seed, steps=40))
    start = replay.settings
    found = least_of(replay, start)
    each = {one: smallest(replay, one).program_memory_bytes for one in candidates(start)}
    assert (
        found.program_memory_bytes
        == min(each.values())
        <= smallest(replay, start).program_memory_bytes
    )
    assert each[found.settings] == found.program_memory_bytes
    if each[start] == found.program_memory_bytes:
        assert found.settings == start
        return
    # Choose the best of the settings that need equally little memory.
    costs = {
        one: cost(replay.simulate(one, program_memory=least), start)
        for one, least in each.items()
        if least == found.program_memory_bytes
    }
    assert costs[found.settings] == min(costs.values())


def test_expandable_segments_need_the_least_memory() -> None:
    replay = replayed(scattered())
    assert smallest(replay, replay.settings).program_memory_bytes == (200 + 5 * 18) * MIB
    found = least_of(replay, replay.settings)
    assert found.settings.expandable
    assert found.program_memory_bytes == 200 * MIB


def test_result_is_deterministic() -> None:
    found = {least_of(replayed(mixed(3)), AllocatorSettings()) for _ in range(5)}
    assert len(found) == 1


def test_program_without_requests_keeps_its_settings() -> None:
    b = SnapshotBuilder().free(BASE, MIB)
    replay = replayed(b.finish_segments().build())
    most = replay.simulate(program_memory=1 << 50).outcome.reserved_peak_bytes
    assert smallest(replay, replay.settings).program_memory_bytes == most
    assert least_of(replay, replay.settings).settings == replay.settings
