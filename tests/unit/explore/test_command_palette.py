"""Tests of explore/command_palette.py: keys pressed while the palette opens or closes."""

from __future__ import annotations

from typing import Any

import pytest
from textual.command import CommandPalette

from tests.unit.explore.playing import explorer, play

pytestmark = pytest.mark.usefixtures("short_waits")


def test_palette_may_be_closed_twice() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("ctrl+p")
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        palette._action_escape()
        palette._action_escape()
        await pilot.settled()
        assert len(app.screen_stack) == 1
        await pilot.press("2")
        assert app.looked.view == "groups"

    play(app, do)


def test_palette_has_no_rows_yet() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.resize_terminal(1, 1)  # too small for the list
        await pilot.press("ctrl+p")
        assert isinstance(app.screen, CommandPalette)
        await pilot.press("pageup", "pagedown", "home", "end")
        await pilot.press("escape")
        assert app.is_running

    play(app, do)


def test_click_outside_of_everything_closes_the_palette() -> None:
    app = explorer()

    async def do(pilot: Any) -> None:
        await pilot.press("ctrl+p")
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        # the terminal became smaller after the click
        assert palette.get_widget_at(500, 500)[0] is palette
        await pilot.press("escape")

    play(app, do)
