"""Tests of explore/keys.py: every key is unique and listed on the page."""

from __future__ import annotations

from memreplay.explore.keys import KEYS, label, short, spelled
from tests.conftest import ROOT


def test_no_key_has_two_actions() -> None:
    pressed = [one for key in KEYS for one in key.keys.split(",")]
    assert len(pressed) == len(set(pressed))


def test_keys_are_spelled_as_printed() -> None:
    assert spelled("shift+left,comma") == "shift+left or ,"
    assert short("pagedown,ctrl+f") == "page down ^F"
    assert short("H,ctrl+left") == "H ^left"
    by_action = {key.action: key for key in KEYS}
    assert label(by_action["column(-1)"], plain=False) == "←→"
    assert label(by_action["row(-1)"], plain=True) == "up/down"
    assert label(by_action["keys"], plain=False) == "?"


def test_page_has_every_key() -> None:
    page = (ROOT / "docs" / "explore.md").read_text(encoding="utf-8")
    for key in KEYS:
        assert key.words in page, key
