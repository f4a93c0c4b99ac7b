"""Tests of integrations/options.py: the same options from Python, files and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memreplay.errors import UsageError
from memreplay.integrations.options import READ, VARIABLE, Options, options_from
from memreplay.recording.session import Wanted


@pytest.mark.parametrize(
    "given, name, expected",
    [
        ({"steps": (10, 12)}, "steps", (10, 12)),
        ({"steps": [10, 12]}, "steps", (10, 12)),
        ({"steps": "10-12"}, "steps", (10, 12)),
        ({"steps": 10}, "steps", (10, 10)),
        ({"steps": "10"}, "steps", (10, 10)),
        ({"ranks": [0, 8]}, "ranks", {0, 8}),
        ({"ranks": "0,8-10"}, "ranks", {0, 8, 9, 10}),
        ({"ranks": 3}, "ranks", {3}),
        ({"every": "5"}, "every", 5),
        ({"every": None}, "every", None),
        ({"max_entries": "1000"}, "max_entries", 1000),
        ({"max_entries": "all"}, "max_entries", None),
        ({"oom_only": "true"}, "oom_only", True),
        ({"oom_only": "0"}, "oom_only", False),
        ({"source": True}, "source", True),
        ({"path": Path("a.pickle")}, "path", "a.pickle"),
        ({}, "max_entries", 500_000),
        ({"continuous": "true"}, "continuous", True),
        ({"continuous": {"keep": 3}}, "continuous", {"keep": 3}),
        ({"continuous": "seconds=0.5,keep=3"}, "continuous", {"seconds": 0.5, "keep": 3}),
    ],
)
def test_values_may_be_text(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], name: str, expected: object
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert getattr(options_from(given), name) == expected


def test_environment_has_options_that_the_program_does_not_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "path='a b.pickle' steps=3 holders=1")
    found = options_from({"steps": "5-6"})
    assert found == Options(path="a b.pickle", steps=(5, 6), holders=True)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"step": 1}, "unknown option step; known options: path, steps"),
        ({"steps": "0-3"}, "steps: '0-3' isn't valid"),
        ({"steps": "5-3"}, "steps: '5-3' isn't valid"),
        ({"steps": (1, 2, 3)}, "isn't valid"),
        ({"steps": True}, "steps: True isn't valid"),
        ({"ranks": "a"}, "ranks: 'a' isn't valid"),
        ({"ranks": "3-1"}, "ranks: '3-1' isn't valid"),
        ({"ranks": []}, r"ranks: \[\] isn't valid"),
        ({"ranks": -1}, "ranks: -1 isn't valid"),
        ({"every": 0}, "every: 0 isn't valid"),
        ({"max_entries": "-5"}, "max_entries: '-5' isn't valid"),
        ({"stacks": "cpp"}, "stacks: 'cpp' isn't valid"),
        ({"continuous": "minutes=5"}, "continuous: unknown minutes; known: seconds, size, keep"),
        ({"continuous": {"keep": 0}}, "continuous: keep must be a whole number above 0"),
        ({"oom_only": "maybe"}, "oom_only: 'maybe' isn't valid"),
    ],
)
def test_invalid_options_are_errors(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        options_from(given)


def test_invalid_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "holders")
    with pytest.raises(UsageError, match=f"{VARIABLE}: write name=value, not 'holders'"):
        options_from({})


def test_each_option_is_read_and_passed_on() -> None:
    assert set(READ) == set(Options._fields)
    own = {"steps", "ranks", "oom_only"}
    assert set(Options._fields) - own < set(Wanted._fields)
