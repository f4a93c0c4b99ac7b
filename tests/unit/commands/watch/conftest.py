"""A simulated folder and clock to watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.commands.watch.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Create a world with an empty folder."""
    folder = tmp_path / "run"
    folder.mkdir()
    return World(folder)
