"""Screenshots of the explorer, compared with those in __snapshots__.

After an intended change, review them and run `pytest … --snapshot-update`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from memreplay.explore.app import Explorer
from memreplay.explore.explored import Explored
from memreplay.explore.panes import Pane
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SIZES = [(80, 24), (160, 50)]
SCREENS = {
    "tree": (),
    "groups": ("2", "down"),
    "list": ("3",),
    "segments": ("4",),
    "blocks": ("4", "enter", "down"),
    "change": ("home", "left_square_bracket", "s", "right_square_bracket"),
    "zoomed": ("plus", "plus", "plus", "plus", "x"),
    "details": ("r",),
    "typed": ("colon", "1", "2"),
    "keys": ("question_mark",),
    "light": ("light",),
}


def screen(name: str, chars: Any = "blocks") -> Explorer:
    snap = mr.open(ROOT / "examples" / name)
    explored = Explored(snap)
    look = explored.first_look(snap.devices[0])
    return Explorer([Pane(explored, look, name, chars=chars)], chars)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
def test_screens(snap_compare: Callable[..., bool], name: str, size: tuple[int, int]) -> None:
    app = screen("recorded_gpt.pkl.gz")
    keys = SCREENS[name]
    if name == "light":
        app.theme = "textual-light"
        keys = ()
    assert snap_compare(app, press=keys, terminal_size=size)


def test_in_ascii(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(screen("serving_oom.pkl.gz", "ascii"), terminal_size=(80, 24))


def test_without_colours(
    snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(screen("two_gpus.pkl.gz", "blocks"), terminal_size=(80, 24))
