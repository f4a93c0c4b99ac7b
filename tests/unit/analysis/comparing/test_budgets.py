"""Tests of analysis/comparing/budgets.py."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.analysis.comparing.budgets import MAX_BUDGETS, Budget, budgets_of
from memreplay.errors import UsageError

GIB = 1 << 30


def parsed(**table: Any) -> Budget:
    (found,) = budgets_of({"gate": [table]}, "memreplay.toml")
    return found


def test_a_whole_table() -> None:
    found = parsed(
        name="backward",
        device=1,
        measure="active",
        max_peak="38GiB",
        max_growth="2%",
        max_growth_bytes="256MiB",
        max_reserved="41_000_000B",
        max_fragmentation="20%",
        no_leaks=True,
        no_oom=False,
    )
    assert found == Budget(
        name="backward",
        device=1,
        measure="active",
        max_peak=38 * GIB,
        max_growth=0.02,
        max_growth_bytes=256 << 20,
        max_reserved=41_000_000,
        max_fragmentation=0.2,
        no_leaks=True,
        where="memreplay.toml: gate table 1 ('backward')",
    )
    assert found.needs_base
    assert "no_oom" not in found.limits


def test_parts_and_zeros() -> None:
    found = parsed(category="activations", annotation="ProfilerStep", max_peak="40e9B")
    assert (found.category, found.annotation, found.max_peak) == (
        "activations",
        "ProfilerStep",
        40 * 10**9,
    )
    assert found.measure == "held"
    assert not found.needs_base
    assert parsed(max_growth="0%").limits == ("max_growth",)
    assert parsed(max_peak=0).limits == ("max_peak",)


def test_no_tables() -> None:
    assert budgets_of({}, "") == ()


@pytest.mark.parametrize(
    "table, words",
    [
        ({}, "limits nothing: give one of max_peak, max_growth,"),
        ({"no_leaks": False}, "limits nothing"),
        ({"name": "x", "device": 0}, "gate table 1 ('x') limits nothing"),
        ({"max_peek": 1}, "unknown key 'max_peek'; there are: name, device, category,"),
        ({"where": "x", "no_oom": True}, "unknown key 'where'"),
        ({"max_peak": "much"}, "max_peak: 'much' is not a size"),
        ({"max_peak": -1}, "max_peak: -1 is not a size"),
        ({"max_peak": True}, "max_peak: True is not a size"),
        ({"max_growth": 2}, "max_growth: 2 is not a percentage: give 2%"),
        ({"max_growth": "256MiB"}, "max_growth: '256MiB' is not a percentage"),
        ({"max_fragmentation": 0.2}, "max_fragmentation: 0.2 is not a percentage"),
        ({"no_leaks": "yes"}, "no_leaks must be true or false"),
        ({"device": "0", "no_oom": True}, "device must be a number, -1 or more"),
        ({"device": -2, "no_oom": True}, "device must be a number, -1 or more"),
        ({"device": True, "no_oom": True}, "device must be a number, -1 or more"),
        (
            {"measure": "used", "max_peak": "1B"},
            "no measure is called 'used'; there are: requested,",
        ),
        ({"category": "", "max_peak": "1B"}, "category must be a string"),
        ({"name": 3, "max_peak": "1B"}, "name must be a string"),
        ({"category": "a", "no_leaks": True}, "no_leaks limits all memory, not one category"),
        ({"annotation": "a", "no_oom": True}, "no_oom limits all memory, not one annotation"),
        ({"category": "a", "max_reserved": "1B"}, "reserved memory consists of segments, which"),
        ({"category": "a", "max_reserved": 0}, "table 1: reserved memory consists of segments"),
        (
            {"category": "a", "measure": "reserved", "max_peak": "1B"},
            "reserved memory consists of segments",
        ),
        ({"measure": "reserved", "no_leaks": True}, "leaks are in allocations"),
    ],
)
def test_what_is_wrong_names_the_file_and_the_table(table: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(**table)
    text = str(caught.value)
    assert text.startswith("memreplay.toml: gate table 1")
    assert words in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "given, words",
    [
        ({}, "`gate` must be a list of tables ([[gate]])"),
        ([3], "gate table 1 is not a table"),
        ([{"no_oom": True}] * (MAX_BUDGETS + 1), "257 gate tables; 256 at most"),
    ],
)
def test_no_list_of_tables(given: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        budgets_of({"gate": given}, "pyproject.toml")
    assert str(caught.value).startswith("pyproject.toml: ")
    assert words in str(caught.value)
