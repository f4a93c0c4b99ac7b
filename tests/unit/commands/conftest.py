"""Fixtures shared by the tests of commands."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.commanding import command_runner


@pytest.fixture(autouse=True)
def neutral_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the environment's width and colour settings."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def runner() -> CliRunner:
    """Run commands in this process."""
    return command_runner()
