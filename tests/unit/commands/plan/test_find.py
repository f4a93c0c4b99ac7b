"""Tests of commands/plan/find.py on random recordings."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.errors import NothingToTellError
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.noted import noted_traces


def checked(snapshot: Any, fit: int) -> None:
    """Plan, and check what must hold for any recording."""
    snap = mr.open(build.dump(snapshot))
    try:
        report = mr.plan(snap, fit=fit)
    except NothingToTellError:
        return
    for device in report.devices:
        assert device.program_memory_bytes <= device.total_memory_bytes
        assert not (device.fits and device.plans)
        assert device.floor.bytes == sum(device.floor.category_bytes.values())
        for plan in device.plans:
            assert plan.spare_bytes >= 0
            assert plan.requested_peak_bytes <= device.program_memory_bytes
            assert plan.simulated.oom_count == 0
    assert str(report)


@given(snapshot=noted_traces(), fit=st.integers(1, 1 << 40))
def test_plans_of_any_notes_fit(snapshot: Any, fit: int) -> None:
    checked(snapshot, fit)


@given(recording=recordings(), fit=st.integers(1, 1 << 34))
def test_plans_of_any_recording_fit(recording: Recording, fit: int) -> None:
    checked(recording.snapshot, fit)
