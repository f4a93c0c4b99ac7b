"""Fixtures shared by several tests of the recorder."""

from __future__ import annotations

import platform
import sys

import pytest

from memreplay.recording.facts import OLD_SYMBOLIZE, SYMBOLIZE


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A platform on which PyTorch unwinds C++ stacks, without user settings."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name in (SYMBOLIZE, OLD_SYMBOLIZE):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
