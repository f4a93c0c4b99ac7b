"""Tests of explore/row_actions.py: keys that move among calls, focus and search."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.explore.rows.calls import TreeRows
from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen, two

pytestmark = pytest.mark.usefixtures("short_waits")
STEP = ROOT / "examples" / "transformer_step.pkl.gz"


def tree(app: Any) -> TreeRows:
    rows = app.shown_rows
    assert isinstance(rows, TreeRows)
    return rows


def test_search_moves_while_typing_and_escape_returns() -> None:
    app = explorer(STEP)

    async def do(pilot: Any) -> None:
        await pilot.press("underscore", "down")
        kept = app.key_of_row()
        await pilot.press("slash", *"model.py:2")
        assert "model.py:28" in tree(app).texts(app.rows.row)[-1]
        await pilot.press("9")
        assert "model.py:29" in tree(app).texts(app.rows.row)[-1]
        await pilot.press("backspace", "backspace", "8", "0")
        assert "model.py:80" in tree(app).texts(app.rows.row)[-1]
        await pilot.press("x")
        await pilot.sees("search (no match)")
        await pilot.press("backspace")
        assert app.key_of_row() != kept
        await pilot.press("escape")
        assert app.key_of_row() == kept
        assert app.rows.count <= 4  # the calls are closed again
        await pilot.press("slash", *"model.py:(", "escape")  # incomplete, and no error
        assert "isn't a regular" not in screen(app)[-1]
        await pilot.press("slash", *"model.py:2", "enter")
        first = app.rows.row
        assert "model.py:28" in tree(app).texts(first)[-1]
        await pilot.press("n")
        assert app.rows.row > first

    play(app, do)


def test_one_subtree_opens_and_closes() -> None:
    app = explorer(STEP)

    async def do(pilot: Any) -> None:
        await pilot.press("underscore", "g")
        others = app.rows.count
        await pilot.press("E")
        rows = tree(app)
        below = rows.until[rows.visible[0]]
        assert sum(at >= 0 for at in rows.visible[: app.rows.count]) == below + others - 1
        await pilot.press("C", "enter")
        assert (
            len(tree(app).visible)
            <= others + len([at for at, caller in enumerate(rows.callers) if caller == 0]) + 1
        )

    play(app, do)
    compared = two()

    async def see(pilot: Any) -> None:
        await pilot.press("underscore")
        assert compared.rows.count < 5
        closed = compared.rows.count
        await pilot.press("E")
        assert compared.rows.count > closed
        await pilot.press("C")
        assert compared.rows.count == closed

    play(compared, see)


def test_keys_go_to_siblings_and_callers() -> None:
    app = explorer(STEP)

    async def do(pilot: Any) -> None:
        await pilot.press("asterisk", "g")
        rows = tree(app)
        await pilot.press("down", "down", "down")
        level, caller = rows.line(app.rows.row).level, rows.callers[rows.visible[app.rows.row]]
        await pilot.press("right_curly_bracket")
        at = app.rows.row
        assert at > 3
        assert (rows.line(at).level, rows.callers[rows.visible[at]]) == (level, caller)
        await pilot.press("left_curly_bracket")
        assert app.rows.row == 3
        await pilot.press("backspace")
        assert rows.visible[app.rows.row] == caller
        await pilot.press("g", "backspace", "left_curly_bracket")
        assert app.rows.row == 0

    play(app, do)


def test_focus_nests() -> None:
    app = explorer(STEP)

    async def do(pilot: Any) -> None:
        whole = app.rows.count
        await pilot.press("down", "c")
        first, outer = app.explored.root, app.rows.count
        assert outer < whole
        await pilot.press("down", "down", "c")
        second = app.explored.root
        assert second not in (None, first)
        assert app.rows.count < outer
        await pilot.press("c")  # the tree already begins here
        await pilot.press("escape")
        assert (app.explored.root, app.key_of_row()) == (first, second)
        await pilot.press("escape")
        assert (app.explored.root, app.key_of_row(), app.rows.count) == (None, first, whole)

    play(app, do)
