"""Tests of explore/details.py: details scroll by keys and by the wheel."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen

pytestmark = pytest.mark.usefixtures("short_waits")


def test_details_scroll_by_keys_and_by_the_wheel() -> None:
    app = explorer(ROOT / "examples" / "transformer_step.pkl.gz")

    async def do(pilot: Any) -> None:
        await pilot.press("3")
        text = "\n".join(screen(app))
        assert "your code" in text
        assert "torch::unwind" not in text
        await pilot.press("shift+down", "shift+down")
        assert app.told.scroll_offset.y > 0
        text = "\n".join(screen(app))
        assert "the whole stack" in text
        assert app.rows.row == 0
        await pilot.press("ctrl+u", "ctrl+u")
        assert app.told.scroll_offset.y == 0
        await pilot.wheel("#told")
        assert app.told.scroll_offset.y > 0
        await pilot.press("down")  # another row starts at the top
        assert app.told.scroll_offset.y == 0

    play(app, do, lines=24)


def test_details_that_fit_have_no_scrollbar() -> None:
    app = explorer(ROOT / "examples" / "serving_oom.pkl.gz")

    async def do(pilot: Any) -> None:
        await pilot.press("home", "o")  # the failure takes lines from the details
        await app.workers.wait_for_complete()
        await pilot.settled()
        assert len(app.told.lines) < app.told.size.height
        assert app.told.styles.scrollbar_visibility == "hidden"
        await pilot.press("i", "down", "down", "down")
        assert len(app.told.lines) > app.told.size.height
        assert app.told.styles.scrollbar_visibility == "visible"

    play(app, do, lines=28)
