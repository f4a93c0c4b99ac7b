"""A world to watch, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.commands.watch.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nothing is in its folder."""
    folder = tmp_path / "run"
    folder.mkdir()
    return World(folder)
