"""Fixtures shared with the tests of commands."""

from __future__ import annotations

from tests.unit.commands.conftest import neutral_environment, runner

__all__ = ["neutral_environment", "runner"]
