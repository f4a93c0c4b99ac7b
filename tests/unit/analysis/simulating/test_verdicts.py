"""Tests of analysis/simulating/verdicts.py."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.simulating.verdicts import simulation_verdict
from tests import build
from tests.allocator_blocks import GIB, MIB
from tests.build import Snapshot
from tests.unit.analysis.simulating.programs import scattered


def verdict(made: Snapshot, text: str = "", total: int | None = None, *, strict: bool = False):  # type: ignore[no-untyped-def]
    snap = mr.open(build.dump(made))
    replay = snap.replay()
    found = replay.simulate(text, program_memory=total)
    return simulation_verdict(snap, replay, found, strict=strict)


@pytest.mark.parametrize("strict", [False, True])
def test_complete_recording_gives_an_exact_result(strict: bool) -> None:
    found = verdict(scattered(), "expandable_segments:True", strict=strict)
    assert (found.trusted, found.exact, found.reasons) == (True, True, ())


def test_result_is_an_estimate_if_a_request_should_have_failed() -> None:
    found = verdict(scattered(capacity=240 * MIB), total=GIB)
    assert (found.trusted, found.exact) == (True, False)
    assert found.reasons == ("request_succeeds",)


def test_doubts_about_the_recording_come_first() -> None:
    made = scattered()
    # A free without a matching allocation.
    frees = [e for e in made["device_traces"][0] if e["action"] == "free_completed"]
    made["device_traces"][0] += [frees[0]]
    found = verdict(made)
    assert not found.trusted
    assert not found.exact
    assert "unmatched_frees" in found.reasons
