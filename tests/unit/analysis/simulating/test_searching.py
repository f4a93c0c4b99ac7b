"""Tests of analysis/simulating/searching.py."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memreplay.analysis.simulating.searching import (
    as_candidate,
    candidates,
    cost,
    on_threads,
    search,
)
from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings, spelled
from tests.allocator_blocks import MIB
from tests.unit.analysis.simulating.programs import mixed, replayed, scattered

DEFAULTS = AllocatorSettings()
STARTS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "roundup_power2_divisions:[256:1,512:2,>:4],large_segment_size_mb:32",
    "per_process_memory_fraction:0.5,garbage_collection_threshold:0.6",
)


@pytest.mark.parametrize("text", STARTS)
def test_candidates_are_distinct_and_start_with_the_given_settings(text: str) -> None:
    start = changed_settings(DEFAULTS, text)
    found = candidates(start)
    assert found[0] == start
    assert len(set(found)) == len(found)
    assert 20 <= len(found) <= 32
    assert {one.expandable for one in found} == {False, True}
    # Settings that aren't varied stay the same.
    for one in found:
        assert one.memory_fraction == start.memory_fraction
        assert one.collect_threshold == start.collect_threshold


def test_every_candidate_is_valid() -> None:
    for one in candidates(DEFAULTS):
        assert changed_settings(DEFAULTS, spelled(one)) == one


def test_settings_that_pytorch_would_reject_are_not_tried() -> None:
    start = changed_settings(DEFAULTS, "large_segment_size_mb:100")
    found = candidates(start)
    assert all(one.max_split_bytes < 0 or one.max_split_bytes >= 100 * MIB for one in found)
    assert any(one.max_split_bytes > 0 for one in found)


def test_best_settings_come_first_and_match_their_simulation() -> None:
    replay = replayed(scattered())
    found = search(replay, replay.settings)
    assert {one.settings for one in found} == set(candidates(replay.settings))
    costs = [cost(one, replay.settings) for one in found]
    assert costs == sorted(costs)
    peaks = [one.outcome.reserved_peak_bytes for one in found]
    assert peaks == sorted(peaks)
    assert found[0].settings.expandable
    for one in found:
        assert replay.simulate(one.settings).outcome == one.outcome


def test_settings_that_run_out_of_memory_come_last() -> None:
    replay = replayed(scattered())
    found = search(replay, replay.settings, 205 * MIB)
    stopped = [one.stopped_event for one in found]
    fitting = [one for one in stopped if one is None]
    failing = [one for one in stopped if one is not None]
    assert stopped == fitting + failing
    assert len(set(failing)) > 1
    assert failing == sorted(failing, reverse=True)


def test_smallest_change_wins_a_tie() -> None:
    replay = replayed(mixed(1, steps=3))
    found = search(replay, replay.settings)
    least = found[0].outcome.reserved_peak_bytes
    same = [one for one in found if one.outcome.reserved_peak_bytes == least]
    assert len(same) > 1
    changes = [cost(one, replay.settings)[4] for one in same]
    assert changes == sorted(changes)
    if any(one.settings == replay.settings for one in same):
        assert found[0].settings == replay.settings


def test_threads_give_the_same_results_as_one_thread() -> None:
    replay = replayed(mixed(7, steps=300))
    alone = {one: replay.simulate(one).outcome for one in candidates(replay.settings)}
    fresh = replayed(mixed(7, steps=300))
    with ThreadPoolExecutor(4) as pool:
        both = list(pool.map(lambda _: search(fresh, fresh.settings), range(4)))
    for found in both:
        assert {one.settings: one.outcome for one in found} == alone


def test_results_from_threads_stay_in_order() -> None:
    names = set()

    def work(settings: AllocatorSettings) -> int:
        names.add(threading.current_thread().name)
        return settings.max_split_bytes

    some = candidates(DEFAULTS)
    assert on_threads(work, some) == [one.max_split_bytes for one in some]
    assert threading.main_thread().name not in names


def test_error_of_one_simulation_is_raised() -> None:
    def work(settings: AllocatorSettings) -> None:
        raise ValueError(spelled(settings))

    with pytest.raises(ValueError, match=r"^$"):
        on_threads(work, candidates(DEFAULTS))


def test_candidate_record_matches_its_simulation() -> None:
    replay = replayed(scattered())
    found = {one.settings: as_candidate(one, exact=True) for one in search(replay, DEFAULTS)}
    assert [one.settings for one in found.values() if one.is_recorded] == [""]
    assert all(spelled(settings) == one.settings for settings, one in found.items())
    assert {one.exactness for one in found.values()} == {"exact"}
    one = replay.simulate("expandable_segments:True", program_memory=100 * MIB)
    assert as_candidate(one, exact=False).exactness == "estimated"
    assert as_candidate(one, exact=True).stopped_event == one.stopped_event is not None
    assert as_candidate(one, exact=True).simulated == one.outcome
