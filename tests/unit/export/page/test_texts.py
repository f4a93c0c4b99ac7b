"""Tests of export/page/texts.py: each string appears once, and none has side effects."""

from __future__ import annotations

from memreplay.export.page.texts import Texts
from memreplay.render.document import Place


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


def test_labels_that_name_code_keep_their_parts() -> None:
    texts = Texts()
    place = Place("forward", "a.py", 3, "add")
    assert [texts.label(one) for one in (place, "(no stack)", place)] == [0, 4, 0]
    assert texts.all() == ("forward  a.py:3  add", "a.py", "forward", "add", "(no stack)")
    assert texts.code() == ((0, 3, 1, 2, 3),)
