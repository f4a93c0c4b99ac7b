"""Patterns that could take forever are rejected; common ones aren't."""

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
def test_common_pattern_is_accepted(pattern: str) -> None:
    assert checked_pattern("include", pattern) == pattern


@pytest.mark.parametrize(
    "pattern, said",
    [
        ("x" * (LONGEST + 1), "at most 200 characters"),
        (".*" * (MOST_REPEATS + 1), "at most 4 repeats"),
        ("a?" * 5 + "a" * 5, "at most 4 repeats"),
        ("(a+)+$", ": a repeated group can't contain a repeat or |, because it may never finish"),
        ("^(a|a)*$", ": a repeated group can't contain a repeat or |, because it may never finish"),
        ("(a?){30}", ": a repeated group can't contain a repeat or |, because it may never finish"),
        ("((a+))*", ": a repeated group can't contain a repeat or |, because it may never finish"),
        ("(?:a*b)+", ": a repeated group can't contain a repeat or |, because it may never finish"),
        (
            "(?P<n>a*)+",
            ": a repeated group can't contain a repeat or |, because it may never finish",
        ),
        (r"(\(a*)+", ": a repeated group can't contain a repeat or |, because it may never finish"),
        ("([)]a+)+", ": a repeated group can't contain a repeat or |, because it may never finish"),
        (
            "([]()]a+)+",
            ": a repeated group can't contain a repeat or |, because it may never finish",
        ),
        ("(?x)(a+) +", "flag x"),
        ("(?x:(a+) +)", "flag x"),
        ("(?ix)(a+) +", "flag x"),
        ("(a+)(?#c)+", "flag x"),
        (r"(a)\1", "flag x"),
        ("(?P<n>a)(?P=n)", "flag x"),
        ("(a)?(?(1)b)", "flag x"),
    ],
)
def test_pattern_that_could_take_forever_is_rejected(pattern: str, said: str) -> None:
    re.compile(pattern)  # it is valid
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        checked_pattern("include", pattern)
    assert str(caught.value).startswith("include: ")
