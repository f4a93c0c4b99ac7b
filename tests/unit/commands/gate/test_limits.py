"""Tests of commands/gate/limits.py; what a gate does with them, test_gate.py has."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.comparing.budgets import Budget, BudgetOptions
from memreplay.analysis.comparing.records import LimitKind
from memreplay.commands.gate.limits import WHERE, all_budgets, given_budgets
from memreplay.commands.shared.config import ConfigChoice
from memreplay.errors import UsageError
from tests.conftest import ROOT

NONE = ConfigChoice(no_config=True)


@pytest.mark.parametrize(
    "options, budget",
    [
        (BudgetOptions(), ()),
        (BudgetOptions(max_peak=0), (Budget(max_peak=0, where=WHERE),)),
        (
            BudgetOptions(max_growth=0.0, no_oom=True),
            (Budget(max_growth=0.0, no_oom=True, where=WHERE),),
        ),
        (
            BudgetOptions(max_reserved=1024, measure="active"),
            (Budget(max_reserved=1024, measure="active", where=WHERE),),
        ),
        (
            BudgetOptions(max_peak=7, no_oom=True, phase="each"),
            (
                Budget(max_peak=7, phase="each", where=WHERE),
                Budget(no_oom=True, where=WHERE),
            ),
        ),
    ],
)
def test_what_was_given(options: BudgetOptions, budget: tuple[Budget, ...]) -> None:
    assert tuple(given_budgets(options)) == budget


def test_there_is_an_option_for_each_limit() -> None:
    from typing import get_args

    assert set(get_args(LimitKind)) <= set(BudgetOptions.__struct_fields__)


def test_a_phase_needs_a_limit_of_its_own() -> None:
    with pytest.raises(UsageError, match="--phase needs a limit on the peak"):
        all_budgets(BudgetOptions(no_oom=True, phase="forward"), NONE, None)


def test_as_budgets() -> None:
    (found,) = all_budgets(BudgetOptions(measure="active", max_peak=7), NONE, None)
    assert (found.measure, found.max_peak) == ("active", 7)
    with pytest.raises(UsageError, match=r"no limit is set: give one of --max-peak, .* or \[\["):
        all_budgets(BudgetOptions(), NONE, None)
    with pytest.raises(UsageError, match="the command line limits growth: give the base"):
        all_budgets(BudgetOptions(max_growth_bytes=0), NONE, None)
    assert all_budgets(BudgetOptions(max_growth_bytes=0), NONE, "base.json")


def test_python_writes_limits_as_the_configuration_does() -> None:
    snap = mr.open(ROOT / "tests" / "data" / "transformer_step.pkl.gz")
    assert mr.gate(snap, max_peak=1 << 40, name="all").passed
    assert not mr.gate(snap, max_peak="1KiB").passed
    with pytest.raises(UsageError, match=r"0\.02 is not a percentage: give 2%"):
        mr.gate(snap, base=snap, max_growth=0.02)
    with pytest.raises(UsageError, match="the gate: no_oom must be true or false"):
        mr.gate(snap, no_oom="yes")
    with pytest.raises(UsageError, match="max_spread compares several files"):
        mr.gate(snap, max_spread="2%")
    with pytest.raises(TypeError, match="gate\\(\\) has no option 'max_peek'"):
        mr.gate(snap, max_peek=1)
