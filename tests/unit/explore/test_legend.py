"""Tests of explore/legend.py and foot.py: the lines that name views, marks and keys."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.explore.app import Explorer
from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen

pytestmark = pytest.mark.usefixtures("short_waits")
TABS = "1 tree  2 groups  3 list  4 segments  5 change"


def active(app: Explorer) -> str:
    """Return the highlighted tab."""
    (name,) = [one.text for one in app.legend.lines[0] if one.style and one.style.reverse]
    return name.split()[1]


def test_tabs_name_the_views_and_switch_them() -> None:
    app = explorer(ROOT / "examples" / "serving_oom.pkl.gz")

    async def do(pilot: Any) -> None:
        (line,) = [one for one in screen(app) if TABS in one]
        assert line.endswith("! failed request (o)  ▲ peak")  # no steps, no annotations
        for key, view in (("2", "groups"), ("4", "segments"), ("tab", "tree")):
            await pilot.press(key)
            assert (app.looked.view, active(app)) == (view, view)
        await pilot.click("#legend", (TABS.index("list"), 0))
        await pilot.settled()
        assert (app.looked.view, active(app)) == ("list", "list")
        await pilot.click("#legend", (TABS.index("change"), 0))
        await pilot.sees("set a range first")
        assert (app.looked.view, active(app)) == ("list", "list")

    play(app, do)


@pytest.mark.parametrize(
    "chars, words", [("blocks", "←→ time  ↑↓ rows"), ("ascii", "up/down rows")]
)
def test_footer_says_what_the_arrows_do(chars: str, words: str) -> None:
    app = explorer(chars=chars)

    async def do(_: Any) -> None:
        assert words in screen(app)[-1]
        assert screen(app)[-1].endswith("? keys  q quit")

    play(app, do, columns=80, lines=24)
