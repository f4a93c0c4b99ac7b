"""Expressions are found where Python's `re` finds them, in bounded time."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.code import linear
from memreplay.analysis.code.linear import Linear, UnsupportedError
from memreplay.errors import UsageError

_ONES = st.sampled_from(
    ["a", "b", "A", "é", r"\.", ".", r"\w", r"\W", r"\d", r"\s", "[ab]", "[^a]", "[a-c1-3_]", "\n"]
)
_PLACES = st.sampled_from(
    ["^", "$", r"\b", r"\B", r"\A", r"\Z", r"(?!\d)", "(?=a)", "(?<!b)", "(?<=[ab])"]
)
_REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "{0}"])
_PATTERNS = st.recursive(
    st.one_of(_ONES, _PLACES),
    lambda inner: st.one_of(
        st.builds(lambda *parts: "".join(parts), inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?:{}){}".format, inner, _REPEATS),
        st.builds("({})".format, inner),
        st.builds("(?i:{})".format, inner),
        st.builds("(?s:{})".format, inner),
        st.builds("(?a:{})".format, inner),
        st.builds("(?u:{})".format, inner),
    ),
    max_leaves=8,
)
_TEXTS = st.text(alphabet="abAB1_ .\né中", max_size=12)


@given(
    _PATTERNS, st.sampled_from(["", "(?i)", "(?m)", "(?a)", "(?s)"]), st.lists(_TEXTS, max_size=5)
)
def test_result_is_the_same_as_pythons(pattern: str, flags: str, texts: list[str]) -> None:
    try:
        expected = re.compile(flags + pattern)
    except re.error:
        return
    found = Linear(flags + pattern, "it")
    for text in [*texts, ""]:
        # Python's `search` ignores scoped flags when it looks for a place to start.
        is_found = any(expected.match(text, i) for i in range(len(text) + 1))
        assert found.search(text) == is_found, text


@pytest.mark.parametrize("pattern", [r"(?a)(?u:\w)", r"(?a:\w)", "(?ai)(?u:K)", r"(?a:(?u:\w))"])
def test_scoped_flags_replace_outer_ones(pattern: str) -> None:
    for text in ("é", "k", "\u212a"):
        assert Linear(pattern, "it").search(text) == bool(re.match(pattern, text))


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)+$", "a*a*a*a*a*a*a*b", "(?:(?:a*)*)*b", ".*.*.*.*.*x", "(a?){90}a{90}$"],
)
def test_patterns_that_explode_elsewhere_take_little_time(pattern: str) -> None:
    started = time.process_time()
    text = "a" * 20_000 + "c"
    assert not Linear(pattern, "it").search(text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("pattern", ["[ab]" * 5000 + "c", "(?i)" + "a" * 5000 + "c"])
def test_long_patterns_take_little_time(pattern: str) -> None:
    started = time.process_time()
    assert not Linear(pattern, "it").search("a" * 1_000_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("pattern", ["abc", "a+c"])
def test_time_of_many_short_texts_is_bounded(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr(linear, "MOST_SECONDS", 0.05)
    found = Linear(pattern, "it")
    texts = ["ababab" * 10] * 1_000_000
    with pytest.raises(UsageError):
        list(map(found.search, texts))


def test_equal_conditions_are_tested_once() -> None:
    found = Linear(r"\ba+\b|\bb+\b|(?=c)c+|(?=c)d+", "it")
    assert len(found._program.places) == 2


def test_conditions_do_not_delay_the_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MOST_SECONDS", 0.0)
    found = Linear("".join(f"(?!{chr(0x4E00 + i)})" for i in range(4000)) + "a+c", "it")
    found._search("ab", time.perf_counter() + 1)  # fills the cache
    with pytest.raises(UsageError):
        found._search("ab" * 10, time.perf_counter() - 1)


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MOST_SECONDS", 0.05)
    found = Linear("(?:a|b)*a(?:a|b){500}c", "--include 'x'")
    with pytest.raises(UsageError) as caught:
        found.search("ab" * 1_000_000)
    assert str(caught.value) == (
        "--include 'x': searching the names in this file took longer than 0.05 s; use a simpler"
        " expression"
    )


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_MOST_CACHED", 50)
    found = Linear("a.{12}b", "it")
    for i in range(300):
        text = f"{i * 7919:020b}".replace("1", "a").replace("0", "b")
        assert found.search(text) == bool(re.search("a.{12}b", text))
        assert len(found._kernels) <= 52


@pytest.mark.parametrize("pattern", ["(?:a|b)*a(?:a|b){300}c", "(?:.|x)*.{60}x"])
def test_memory_of_large_sets_and_many_letters_is_bounded(
    monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(linear, "_MOST_CACHED", 1000)
    found = Linear(pattern, "it")
    for start in range(0x4E00, 0x5A00, 50):
        text = random.Random(start).choices("ab", k=50)
        assert not found.search("".join(text) + "".join(map(chr, range(start, start + 50))))
        kernels = found._kernels.values()
        steps = sum(len(node.following) for one in kernels for node in one.nodes.values())
        assert sum(len(one.states) for one in kernels) + steps < 3000


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=ab)a", "(?<!ab)c", "(a)?(?(1)b|c)"])
def test_unsupported_syntax_is_an_error(pattern: str) -> None:
    with pytest.raises(UnsupportedError):
        Linear(pattern, "it")


@pytest.mark.parametrize(
    "pattern",
    [
        "a{20000}",
        "(?:a{200}){200}",
        "(?:(?:(?:a{99}){99}){99})",
        "(?:){1000000}b+",
        "(?:(?:){1000}){1000}b+",
        "(?:" + "()" * 90 + "a){5000}",
    ],
)
def test_huge_repeats_are_an_error(pattern: str) -> None:
    with pytest.raises(OverflowError):
        Linear(pattern, "it")
