"""Fixtures shared by these tests."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.explore.explored import Explored
from tests.unit.explore.files import FILES


@pytest.fixture(params=FILES, ids=lambda path: path.name.removesuffix(".pkl.gz"))
def explored(request: pytest.FixtureRequest) -> Explored:
    return Explored(mr.open(request.param))


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip Textual's waits: its pilot sleeps twice after each key, and checks for pending work."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.002)
