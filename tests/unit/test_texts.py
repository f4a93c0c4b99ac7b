"""Tests of texts.py; tests/property/test_texts.py checks that every output uses it."""

from __future__ import annotations

import json
from html import unescape
from unicodedata import category
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay import texts
from tests import hostile, judging

ANY = st.one_of(st.text(), hostile.texts)


def test_active_characters_are_escaped() -> None:
    assert texts.clean("a\x1b[31mb\nc\udc80\u202e\x9b") == r"a\x1b[31mb\nc\udc80\u202e\x9b"
    assert texts.clean("naïve 名前 עברית 😀") == "naïve 名前 עברית 😀"
    assert texts.clean("\ufe0f\u3164\U000e0041\ufeff") == r"\ufe0f\u3164\U000e0041\ufeff"
    assert texts.clean("##[group] ##vso[x] a##b") == r"#\x23[group] #\x23vso[x] a##b"


def test_stacked_combining_marks_are_cut() -> None:
    tower = "e" + "\u0301" * texts.MOST_MARKS
    assert texts.clean(tower) == tower
    assert texts.clean(tower + "\u0301\u0301o") == tower + r"\u0301\u0301o"
    assert texts.clean("e\u0301" * 20) == "e\u0301" * 20


@pytest.mark.slow
def test_every_character_is_classified() -> None:
    for code in [*range(0x20000), *range(0xE0000, 0xE0200), 0xF0000, 0x10FFFF]:
        one = chr(code)
        if code % 16 and category(one) in ("Lo", "Cn", "Co", "Cs") and code not in judging.IGNORED:
            continue  # characters of these categories are alike
        seen = texts.clean(one)
        judging.shown(seen)
        if category(one)[0] in "LNPS" and ord(one) not in judging.IGNORED:
            assert seen == one


@given(ANY)
def test_clean_text_is_unchanged(text: str) -> None:
    once = texts.clean(text)
    judging.shown(once)
    assert texts.clean(once) == once
    assert len(texts.clean_short(text, 10)) <= 10


@given(st.lists(ANY))
def test_no_line_is_a_runner_command(words: list[str]) -> None:
    judging.logged(texts.log_line("\n".join(map(texts.clean, words))))


@pytest.mark.parametrize(
    "line, logged",
    [
        ("::error::x", r"\x3a:error::x"),
        ("  ::group a=b::", r"  \x3a:group a=b::"),
        ("a ::error::", "a ::error::"),
        ("::operator new(unsigned long)", "::operator new(unsigned long)"),
        ("a\n::error::\nb", "a\n\\x3a:error::\nb"),
        ("at::native::mm", "at::native::mm"),
    ],
)
def test_commands_of_ci_runners_are_escaped(line: str, logged: str) -> None:
    assert texts.log_line(line) == logged


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a_b*c`d|e[f](g)<h>&", r"a\_b\*c&#96;d\|e\[f\](g)&lt;h&gt;&amp;"),
        ("+1 GiB", "+1 GiB"),
        ("a\nb", r"a\\nb"),
        ("@ana and ana@b.c", "`@ana` and `ana@b.c`"),
        ("https://x.y", "`https://x.y`"),
        ("[(https://x.y), (:cat:)]", r"\[(`https://x.y`), (`:cat`:)\]"),
        ("at::_ops::cat::call(int)", "`at::_ops::cat::call(int)`"),
        ("at 13:22:28 UTC, a.py:12: x", "at 13:22:28 UTC, a.py:12: x"),
        ("step#7|#x", r"`step#7`\|\#x"),
        ("a@b`c@d", "`a@b`&#96;`c@d`"),
        ("##[a]@b ###", r"`#\x23[a]@b` \#\#\#"),
        ("<b>@c&d", "&lt;b&gt;`@c`&amp;d"),
    ],
)
def test_markdown_is_escaped(text: str, shown: str) -> None:
    assert texts.markdown_text(text) == shown


@pytest.mark.parametrize(
    "text, shown",
    [
        ("# no heading", r"\# no heading"),
        ("  # no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("1.5 GiB", r"1\.5 GiB"),
        ("- no list", r"\- no list"),
        ("===", r"\==="),
        ("    no code", "no code"),
        ("::error x::", r"\::error x::"),
    ],
)
def test_line_of_markdown_starts_no_block(text: str, shown: str) -> None:
    assert texts.markdown_line(text) == shown


@given(ANY, ANY, ANY)
def test_markdown_shows_the_text(one: str, other: str, third: str) -> None:
    from markdown_it import MarkdownIt

    written = (
        f"### {texts.markdown_text(one)}\n\n{texts.markdown_line(other)}\n\n"
        f"| a | b |\n| --- | --- |\n| x | {texts.markdown_text(third)} |\n"
    )
    judging.markdown(written.encode())
    tokens = MarkdownIt("gfm-like").parse(written)
    inline = [token.children or [] for token in tokens if token.type == "inline"]
    found = [" ".join("".join(one.content for one in some).split()) for some in inline]
    first, second, last = (" ".join(texts.clean(text).split()) for text in (one, other, third))
    # An empty line doesn't end the paragraph.
    assert found == [first, *([second] if second else []), "a", "b", "x", last]


@given(ANY)
def test_workflow_commands_keep_their_text(text: str) -> None:
    line = f"::error title={texts.workflow_property(text)}::{texts.workflow_message(text)}\n"
    judging.github(line.encode())
    head, _, words = line[2:].partition("::")
    assert words.rstrip("\n").replace("%25", "%") == texts.clean(text)
    value = head.partition("=")[2].replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
    assert value == texts.clean(text)


def test_sarif_has_no_links() -> None:
    assert texts.sarif_text("[a](http://b) operator[](int)") == ("[a] (http://b) operator[] (int)")


@given(ANY)
def test_html_has_no_markup(text: str) -> None:
    found = texts.html_text(text)
    assert not set(found) & set("<>\"'")
    assert unescape(found) == texts.clean(text)


@given(st.lists(ANY))
def test_xml_reads_back_and_is_inert(words: list[str]) -> None:
    root = ElementTree.Element("a", b=" ".join(map(texts.clean, words)))
    root.text = "\n".join(map(texts.clean, words))
    made = texts.xml_inert(ElementTree.tostring(root, encoding="unicode"))
    judging.logged(made)
    again = ElementTree.fromstring(made)
    assert again.text or root.text == ""
    assert again.attrib == root.attrib


@given(st.recursive(ANY, lambda one: st.lists(one) | st.dictionaries(ANY, one), max_leaves=5))
def test_json_reads_back_and_is_inert(value: object) -> None:
    written = json.dumps(value)
    inert = texts.json_inert(written)
    judging.logged(inert)
    assert json.loads(inert) == value
    inside = texts.script_json(written)
    assert "<" not in inside
    assert json.loads(inside) == value


def test_names_in_collapsed_stacks_have_no_separators() -> None:
    assert texts.collapsed_name(" a;b\nc ") == r"a:b\nc"
