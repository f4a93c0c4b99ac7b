"""Tests of explore/help_screen.py: every key is listed, on pages that fit the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.explore.help_screen import in_columns
from memreplay.explore.keys import KEYS, short
from tests.unit.explore.playing import explorer, play, screen

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 20)])
def test_pages_list_every_key(size: tuple[int, int]) -> None:
    app = explorer()
    seen: list[str] = []

    async def do(pilot: Any) -> None:
        await pilot.press("question_mark")
        for _ in range(9):
            shown = screen(app)
            seen.extend(line for line in shown if line not in seen)
            await pilot.press("right")
        assert len(app.screen_stack) == 2
        await pilot.press("left", "question_mark")
        assert len(app.screen_stack) == 1

    play(app, do, columns=size[0], lines=size[1])
    text = "\n".join(seen)
    for key in KEYS:
        assert f" {short(key.keys)} " in text, key
    assert ("page 1 of 3" in text) == (size == (80, 24))
    assert ",," not in text


@pytest.mark.parametrize("rows", [1, 7, 23, 200])
def test_columns_have_no_more_rows_than_fit(rows: int) -> None:
    columns = in_columns(KEYS, 38, rows)
    for column in columns:
        lines = ["".join(text for text, _ in line) for line in column]
        assert len(lines) <= rows or rows < 7
        assert all(len(line) <= 38 for line in lines)
        assert lines[-1] not in ("Time", "View", "Rows", "Output")
