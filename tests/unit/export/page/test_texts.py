"""Tests of export/page/texts.py: each string appears once, and none has side effects."""

from __future__ import annotations

from memreplay.export.page.texts import Texts


def test_every_text_is_stored_once() -> None:
    texts = Texts()
    assert [texts.place(one) for one in ("b", "a", "", "b", "a")] == [0, 1, 2, 0, 1]
    assert texts.all() == ("b", "a", "")


def test_invalid_characters_are_escaped() -> None:
    texts = Texts()
    for text in ("\ud800", "a\x1b[31m", "\u202eevil", "naïve 训练 <b>"):
        texts.place(text)
    assert texts.all() == ("\\ud800", "a\\x1b[31m", "\\u202eevil", "naïve 训练 <b>")
    "".join(texts.all()).encode()
