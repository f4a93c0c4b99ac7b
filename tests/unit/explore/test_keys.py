"""Tests of explore/keys.py: every key is there once, and the page says each."""

from __future__ import annotations

from memreplay.explore.keys import KEYS, first_key, spelled
from tests.conftest import ROOT


def test_no_key_does_two_things() -> None:
    pressed = [one for key in KEYS for one in key.keys.split(",")]
    assert len(pressed) == len(set(pressed))


def test_keys_are_spelled_as_they_are_printed() -> None:
    assert spelled("left_square_bracket,a") == "[, a"
    assert first_key("plus,equals_sign") == "+"


def test_the_page_has_each() -> None:
    page = (ROOT / "docs" / "explore.md").read_text(encoding="utf-8")
    for key in KEYS:
        assert key.words in page, key
