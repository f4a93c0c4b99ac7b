"""Tests of explore/terminal.py: the screen after the program was suspended."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.explore.keys import KEYS, RANK_KEYS
from tests.unit.explore.playing import explorer, play

pytestmark = pytest.mark.usefixtures("short_waits")


def test_screen_is_drawn_again_after_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    app = explorer()
    drawn: list[dict[str, Any]] = []
    refresh = type(app).refresh

    def watched(self: Any, **options: Any) -> Any:
        drawn.append(options)
        return refresh(self, **options)

    async def do(pilot: Any) -> None:
        monkeypatch.setattr(type(app), "refresh", watched)
        app.app_resume_signal.publish(app)
        await pilot.settled()
        assert {"layout": True} in drawn

    play(app, do)


def test_both_programs_can_be_suspended() -> None:
    for keys in (KEYS, RANK_KEYS):
        (key,) = [one for one in keys if one.action == "suspend_process"]
        assert key.keys == "ctrl+z"
