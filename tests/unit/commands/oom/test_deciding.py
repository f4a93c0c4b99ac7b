"""deciding: advice about settings matches how the program behaves with these settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.result import Remedy
from tests import build
from tests.allocator_blocks import MIB, Settings
from tests.allocator_strategies import SETTINGS
from tests.build import Snapshot
from tests.simulated import modelled
from tests.unit.commands.oom.test_find import (
    KEEP,
    fail,
    machine,
    only,
    remedies,
    scattered,
    split_limited,
)


def joined() -> Snapshot:
    """Build free blocks of 10 MiB, each next to a used block in its segment. In an expandable
    segment, the free blocks could be joined.
    """
    made, device = machine(250 * MIB)
    for _ in range(10):
        large = device.malloc(24 * MIB, 0, KEEP)
        assert large is not None
        device.free(large)
        device.malloc(14 * MIB, 0, KEEP)
    fail(device, 40 * MIB)
    return made.dump()[0]


def test_expandable_segments_suffice() -> None:
    found = remedies(only(joined()))["expandable_segments"]
    assert found == Remedy(
        "expandable_segments",
        100 * MIB,
        enough=True,
        is_simulated=True,
        settings="expandable_segments:True",
    )


def test_split_limit_keeps_small_requests_out_of_large_blocks() -> None:
    made, device = machine(180 * MIB)
    large = device.malloc(100 * MIB, 0, KEEP)
    assert large is not None
    device.free(large)
    device.malloc(30 * MIB, 0, KEEP)
    fail(device, 100 * MIB)
    assert remedies(only(made))["max_split_size"] == Remedy(
        "max_split_size", 70 * MIB, enough=True, is_simulated=True, settings="max_split_size_mb:64"
    )


def first_failure(snapshot: Snapshot) -> int | None:
    """Return the line number of the first failed request."""
    for event in snapshot["device_traces"][0]:
        if event["action"] == "oom":
            line: int = event["frames"][0]["line"]
            return line
    return None


def settings_with(remedy: Remedy, settings: Settings) -> Settings | None:
    """Return the settings with the remedy applied, or None if it suggests no setting."""
    if remedy.name == "expandable_segments":
        return replace(settings, expandable_segments=True)
    if settings.max_split_size is not None:
        return replace(settings, max_split_size=None)
    _, _, size = remedy.settings.partition(":")
    return replace(settings, max_split_size=int(size) * MIB) if size else None


@pytest.mark.parametrize("name", ["crowded", "max split, crowded"])
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(60, 200), small=st.integers(0, 3))
def test_advice_matches_the_simulation(name: str, seed: int, steps: int, small: int) -> None:
    """If the program follows the advice, the request succeeds or fails as predicted. (The cache
    isn't emptied, because that leaves no event if it frees nothing.)
    """
    settings = replace(SETTINGS[name], capacity=SETTINGS[name].capacity + small * 20 * MIB)
    without = ("empty cache",)
    snapshot, _ = modelled(settings, seed, steps, without)
    failed = first_failure(snapshot)
    if failed is None:
        return
    (device,) = oom_report(mr.open(build.dump(snapshot)), oom=1).devices
    for remedy in device.ooms[0].remedies:
        if not remedy.is_simulated or remedy.name == "less_live":
            continue
        other = settings_with(remedy, settings)
        if other is None:
            continue
        again, _ = modelled(other, seed, steps, without)
        later = first_failure(again)
        assert remedy.enough == (later is None or later > failed)


def test_nothing_is_simulated_if_events_are_missing() -> None:
    """If events are missing, a simulation gives other segments than the recorded ones."""
    made = scattered()
    snapshot, _ = made.dump()
    trace = snapshot["device_traces"][0]
    at = next(i for i, event in enumerate(trace) if event["action"] == "segment_alloc")
    del trace[at]
    (device,) = oom_report(mr.open(build.dump(snapshot))).devices
    assert not remedies(device.ooms[0])["expandable_segments"].is_simulated
    whole = {one.name: one.is_simulated for one in only(split_limited()).remedies}
    assert whole == {"max_split_size": True, "less_live": True}


def test_next_failure_is_named_and_memory_to_the_end_is_the_least() -> None:
    made, device = machine(250 * MIB)
    for _ in range(10):
        large = device.malloc(24 * MIB, 0, KEEP)
        assert large is not None
        device.free(large)
        device.malloc(14 * MIB, 0, KEEP)
    for size in (40 * MIB, 200 * MIB):
        fail(device, size)
    snap = mr.open(build.dump(made.dump()[0]))
    first, second = oom_report(snap, oom=0).devices[0].ooms
    helped = remedies(first)["expandable_segments"]
    assert (helped.enough, helped.fails_next) == (True, second.event_index)
    replay = snap.replay()
    total = replay.recorded.program_memory_bytes
    assert total is not None
    assert first.to_end_bytes is not None
    least = total + first.to_end_bytes
    assert not replay.simulate(program_memory=least).failed_events
    assert replay.simulate(program_memory=least - 2 * MIB).failed_events
