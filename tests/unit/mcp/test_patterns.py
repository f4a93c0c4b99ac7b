"""Patterns that may take for ever are refused; those that people write are not."""

from __future__ import annotations

import re

import pytest

from memreplay.errors import UsageError
from memreplay.mcp.patterns import LONGEST, MOST_REPEATS, checked_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "model.py:72",
        r"layers\.\d+\..*attn.*forward",
        "forward|backward",
        "(forward|backward) /home",
        "(?:train|eval)_step",
        "(?i)adam",
        "(?P<x>step)+",
        "[()*+?{|]+",
        r"[^]a\]*+]*",
        r"\(a+\)\+\*\?\{",
        "(ab)+",
        "a+?",
        "(?<!x)(?=step)",
        "a{2,3}",
        "(allocated before the recording)",
        "x" * LONGEST,
        ".*" * MOST_REPEATS,
        "(",
        ")",
        ")+(",
        "[",
        "[]",
        "\\",
        "a{",
    ],
)
def test_what_people_write(pattern: str) -> None:
    assert checked_pattern("include", pattern) == pattern


@pytest.mark.parametrize(
    "pattern, said",
    [
        ("x" * (LONGEST + 1), "at most 200 letters"),
        (".*" * (MOST_REPEATS + 1), "at most 4 repeats"),
        ("a?" * 5 + "a" * 5, "at most 4 repeats"),
        ("(a+)+$", "may hold no repeat"),
        ("^(a|a)*$", "may hold no repeat"),
        ("(a?){30}", "may hold no repeat"),
        ("((a+))*", "may hold no repeat"),
        ("(?:a*b)+", "may hold no repeat"),
        ("(?P<n>a*)+", "may hold no repeat"),
        (r"(\(a*)+", "may hold no repeat"),
        ("([)]a+)+", "may hold no repeat"),
        ("([]()]a+)+", "may hold no repeat"),
        ("(?x)(a+) +", "no flag x"),
        ("(?x:(a+) +)", "no flag x"),
        ("(?ix)(a+) +", "no flag x"),
        ("(a+)(?#c)+", "no flag x"),
        (r"(a)\1", "no flag x"),
        ("(?P<n>a)(?P=n)", "no flag x"),
        ("(a)?(?(1)b)", "no flag x"),
    ],
)
def test_what_may_take_for_ever(pattern: str, said: str) -> None:
    re.compile(pattern)  # it is one
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        checked_pattern("include", pattern)
    assert str(caught.value).startswith("include: ")
