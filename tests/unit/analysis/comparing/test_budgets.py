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


def test_all_keys_of_a_table_are_read() -> None:
    found = parsed(
        name="backward",
        device=1,
        measure="active",
        max_peak="38GiB",
        max_growth="2%",
        max_growth_bytes="256MiB",
        max_reserved="41_000_000B",
        max_fragmentation="20%",
        forbid_leaks=True,
        forbid_oom=False,
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
        forbid_leaks=True,
        where="memreplay.toml: gate table 1 ('backward')",
    )
    assert found.needs_base
    assert "forbid_oom" not in found.limits


def test_limits_may_be_fractional_or_zero() -> None:
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


def test_no_tables_give_no_budgets() -> None:
    assert budgets_of({}, "") == ()


@pytest.mark.parametrize(
    "table, words",
    [
        ({}, "sets no limit; give one of max_peak, max_growth,"),
        ({"forbid_leaks": False}, "sets no limit; give one of"),
        ({"name": "x", "device": 0}, "gate table 1 ('x') sets no limit; give one of "),
        ({"max_peek": 1}, "unknown key 'max_peek'; known keys: name, device, category,"),
        ({"where": "x", "forbid_oom": True}, "unknown key 'where'"),
        ({"max_peak": "much"}, "max_peak: 'much' is not a size"),
        ({"max_peak": -1}, "max_peak: -1 is not a size"),
        ({"max_peak": True}, "max_peak: True is not a size"),
        ({"max_growth": 2}, "max_growth: 2 is not a percentage; give 2%"),
        ({"max_growth": "256MiB"}, "max_growth: '256MiB' is not a percentage; give 2%"),
        ({"max_fragmentation": 0.2}, "max_fragmentation: 0.2 is not a percentage; give 2%"),
        ({"forbid_leaks": "yes"}, "forbid_leaks must be true or false"),
        ({"device": "0", "forbid_oom": True}, "device must be a number, -1 or more"),
        ({"device": -2, "forbid_oom": True}, "device must be a number, -1 or more"),
        ({"device": True, "forbid_oom": True}, "device must be a number, -1 or more"),
        (
            {"measure": "used", "max_peak": "1B"},
            "no measure is called 'used'; known: requested,",
        ),
        ({"category": "", "max_peak": "1B"}, "category must be a string"),
        ({"name": 3, "max_peak": "1B"}, "name must be a string"),
        (
            {"category": "a", "forbid_leaks": True},
            "forbid_leaks applies to all memory, not to one category",
        ),
        (
            {"annotation": "a", "forbid_oom": True},
            "forbid_oom applies to all memory, not to one annotation",
        ),
        (
            {"category": "a", "max_reserved": "1B"},
            "reserved memory has no categories; choose another measure",
        ),
        (
            {"category": "a", "max_reserved": 0},
            "table 1: reserved memory has no categories; choose another measure",
        ),
        (
            {"category": "a", "measure": "reserved", "max_peak": "1B"},
            "reserved memory has no categories",
        ),
        (
            {"measure": "reserved", "forbid_leaks": True},
            ": reserved memory can't leak; choose another measure",
        ),
    ],
)
def test_errors_name_the_file_and_the_table(table: dict[str, Any], words: str) -> None:
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
        (
            [{"forbid_oom": True}] * (MAX_BUDGETS + 1),
            "257 gate tables, but at most 256 are allowed",
        ),
    ],
)
def test_gate_must_be_a_list_of_tables(given: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        budgets_of({"gate": given}, "pyproject.toml")
    assert str(caught.value).startswith("pyproject.toml: ")
    assert words in str(caught.value)
