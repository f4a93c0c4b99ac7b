"""Tests of analysis/advising/settings.py: predicted savings match the memory that the program uses
with the setting.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.advising.settings import LEAST_BYTES, expandable_segments
from memreplay.snapshot.recorded_allocator import unused_bytes
from tests import build
from tests.allocator_blocks import MIB
from tests.allocator_strategies import SETTINGS
from tests.simulated import modelled
from tests.unit.commands.oom.test_deciding import joined


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(60, 300))
def test_savings_match_the_simulation(seed: int, steps: int) -> None:
    settings = SETTINGS["default"]
    # If empty_cache() frees nothing, it records no event.
    without = ("empty cache",)
    snapshot, _ = modelled(settings, seed, steps, without)
    replay = mr.open(build.dump(snapshot)).replay(0)
    found = expandable_segments(replay)
    if found is None:
        assert unused_bytes(replay) < LEAST_BYTES or not replay.allocations
        return
    _, run = modelled(replace(settings, expandable_segments=True), seed, steps, without)
    if found.exact:
        assert found.saved_bytes == replay.measure("reserved").peak.bytes - run.peak
    assert found.saved_bytes <= unused_bytes(replay) or not found.exact


def test_nothing_is_simulated_if_nothing_can_be_saved() -> None:
    replay = mr.open(build.dump(joined())).replay(0)
    assert unused_bytes(replay) < 200 * MIB
    assert (expandable_segments(replay) is None) == (unused_bytes(replay) < LEAST_BYTES)
    expandable, _ = modelled(SETTINGS["expandable"], 3, 200)
    assert expandable_segments(mr.open(build.dump(expandable)).replay(0)) is None
