"""late: lazily compiled expressions match the same strings as eager ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.categories import origins
from memreplay.analysis.code import operators
from memreplay.analysis.code.late import Late
from memreplay.analysis.code.needles import needles

# Another test compares the expressions in plumbing.py with a single expression.
LATE = [origins.CAST, origins.EXIT, origins.LOWER, operators._OPERATOR, operators._NODE]


@pytest.mark.parametrize("late", LATE, ids=lambda late: late.pattern[:20])
def test_declared_needles_are_correct(late: Late) -> None:
    found = needles(re.compile(late.pattern))
    assert late.needles is not None
    assert found is not None
    # A string that matches any of these expressions contains a needle.
    assert all(any(mine in one for mine in late.needles) for one in found)


@given(st.text("abAB:ſKk", max_size=6))
def test_late_pattern_matches_like_a_compiled_pattern(text: str) -> None:
    for pattern in ("(?i:ab)k?", ":", "(?i:k)"):
        expected = re.search(pattern, text)
        given = Late(pattern, needles(re.compile(pattern)))
        found = given.search(text)
        assert (found and found.span()) == (expected and expected.span())
        again = given.search(text)
        assert (again and again.span()) == (expected and expected.span())


def test_nothing_is_compiled_without_a_needle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    compiled = re.compile

    def counted(text: str) -> re.Pattern[str]:
        asked.append(text)
        return compiled(text)

    monkeypatch.setattr(re, "compile", counted)
    late = Late("abc+", ("abc",))
    assert late.search("ab") is None
    assert asked == []
    assert late.search("xABC") is None
    assert late.search("xabcc")
    assert asked == ["abc+"]
