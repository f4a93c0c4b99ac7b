"""needles: a pattern matches only strings that contain one of its needles."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.categories.rules import CONDITIONS, DEFAULT_RULES
from memreplay.analysis.code.needles import Sieve, needles

PATTERNS = [
    pattern for rule in DEFAULT_RULES for key in CONDITIONS if (pattern := getattr(rule, key))
]


@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("abc", ("abc",)),
        ("Abc", ("abc",)),
        ("ab|cd", ("ab", "cd")),
        ("ab?cd", ("cd",)),
        ("a+b", ("a",)),
        ("(?:abc)+x", ("abc",)),
        ("(?:abc)*x", ("x",)),
        ("a.b(cde|fgh)", ("cde", "fgh")),
        ("(?i:ABC)d", ("abc",)),
        (".", None),
        ("a|", None),
        ("", None),
        (r"\d+", None),
        ("é", None),
        ("(?=abc)", None),
        ("(?!abc)d", ("d",)),
        (r"(?x) a b c  # words", ("abc",)),
    ],
)
def test_pattern_has_the_expected_needles(pattern: str, expected: tuple[str, ...] | None) -> None:
    assert needles(re.compile(pattern)) == expected


PARTS = (
    "a",
    "B",
    "k",
    "s",
    "K",
    "ſ",
    ":",
    ".",
    "optim",
    "ATTENTION",
    "forward",
    "Backward0",
    "/",
    "é",
)
ATOMS = (
    "a",
    "b",
    "k",
    "s",
    "ab",
    "(a|b)",
    "(?i:S)",
    "(?:ab|c)?",
    "a*",
    "b+",
    "[ks]",
    ".",
    "^",
    "$",
    r"\b",
)


@given(
    st.lists(st.sampled_from(ATOMS), max_size=5),
    st.sampled_from(["", "(?i)"]),
    st.text("aBkKsſb", max_size=6),
)
def test_every_match_contains_a_needle(atoms: list[str], flags: str, text: str) -> None:
    try:
        pattern = re.compile(flags + "".join(atoms))
    except re.error:
        return
    if pattern.search(text):
        assert Sieve([pattern]).left([text]) == [1]


@given(st.sampled_from(PATTERNS), st.data())
def test_sieve_keeps_every_match_of_a_default_rule(rule: str, data: st.DataObject) -> None:
    pattern = re.compile(rule)
    text = data.draw(
        st.one_of(st.from_regex(pattern), st.lists(st.sampled_from(PARTS)).map("".join))
    )
    assert Sieve([pattern]).left([text])[0] or not pattern.search(text)


@given(st.lists(st.lists(st.sampled_from((*PARTS, "İ", "\0", "collate"))).map("".join), max_size=6))
def test_sieve_treats_each_string_independently(texts: list[str]) -> None:
    sieve = Sieve(map(re.compile, PATTERNS))
    found = sieve.left(texts)
    assert found == [left for text in texts for left in sieve.left([text])]
    for text, left in zip(texts, found, strict=True):
        for number, pattern in enumerate(PATTERNS):
            assert left >> number & 1 or not re.search(pattern, text)


def test_almost_all_default_rules_have_needles() -> None:
    assert sum(needles(re.compile(pattern)) is None for pattern in PATTERNS) <= 1
