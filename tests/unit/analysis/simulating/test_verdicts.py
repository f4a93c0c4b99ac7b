"""Tests of analysis/simulating/verdicts.py."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.simulating.verdicts import simulation_verdict
from tests import build
from tests.allocator import GIB, MIB
from tests.build import Snapshot
from tests.unit.analysis.simulating.programs import scattered


def verdict(made: Snapshot, text: str = "", total: int | None = None, *, strict: bool = False):  # type: ignore[no-untyped-def]
    snap = mr.open(build.dump(made))
    replay = snap.replay()
    found = replay.simulate(text, total_bytes=total)
    return simulation_verdict(snap, replay, found, strict=strict)


@pytest.mark.parametrize("strict", [False, True])
def test_nothing_speaks_against_it(strict: bool) -> None:
    found = verdict(scattered(), "expandable_segments:True", strict=strict)
    assert (found.trusted, found.exact, found.reasons) == (True, True, ())


def test_what_speaks_against_the_simulation_alone() -> None:
    found = verdict(scattered(capacity=240 * MIB), total=GIB)
    assert (found.trusted, found.exact) == (True, False)
    assert found.reasons == ("request_succeeds",)


def test_what_speaks_against_the_recording_comes_first() -> None:
    made = scattered()
    # A free of which the allocation is missing.
    frees = [e for e in made["device_traces"][0] if e["action"] == "free_completed"]
    made["device_traces"][0] += [frees[0]]
    found = verdict(made)
    assert not found.trusted
    assert not found.exact
    assert "unmatched_frees" in found.reasons
