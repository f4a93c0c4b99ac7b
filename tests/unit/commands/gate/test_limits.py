"""Tests of commands/gate/limits.py. test_command.py tests how a gate applies limits."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.comparing.budgets import Budget, BudgetOptions
from memreplay.analysis.comparing.records import LimitKind
from memreplay.commands.gate.limits import WHERE, all_budgets, given_budgets
from memreplay.commands.shared.config import ConfigChoice
from memreplay.errors import UsageError
from tests.conftest import ROOT

NONE = ConfigChoice("none")


@pytest.mark.parametrize(
    "options, budget",
    [
        (BudgetOptions(), ()),
        (BudgetOptions(max_peak=0), (Budget(max_peak=0, where=WHERE),)),
        (
            BudgetOptions(max_growth=0.0, forbid_oom=True),
            (Budget(max_growth=0.0, forbid_oom=True, where=WHERE),),
        ),
        (
            BudgetOptions(max_reserved=1024, measure="active"),
            (Budget(max_reserved=1024, measure="active", where=WHERE),),
        ),
        (
            BudgetOptions(max_peak=7, forbid_oom=True, phase="each"),
            (
                Budget(max_peak=7, phase="each", where=WHERE),
                Budget(forbid_oom=True, where=WHERE),
            ),
        ),
    ],
)
def test_given_limits_become_budgets(options: BudgetOptions, budget: tuple[Budget, ...]) -> None:
    assert tuple(given_budgets(options)) == budget


def test_every_limit_has_an_option() -> None:
    from typing import get_args

    assert set(get_args(LimitKind)) <= set(BudgetOptions.__struct_fields__)


def test_phase_needs_its_own_limit() -> None:
    with pytest.raises(UsageError, match="--phase needs a limit on the peak"):
        all_budgets(BudgetOptions(forbid_oom=True, phase="forward"), NONE, None)


def test_limits_are_checked() -> None:
    (found,) = all_budgets(BudgetOptions(measure="active", max_peak=7), NONE, None)
    assert (found.measure, found.max_peak) == ("active", 7)
    with pytest.raises(
        UsageError, match=r"no limit is set; give one of --max-peak, .* or --config"
    ):
        all_budgets(BudgetOptions(), NONE, None)
    with pytest.raises(
        UsageError, match="the command line limits growth; give the base with --base"
    ):
        all_budgets(BudgetOptions(max_growth_bytes=0), NONE, None)
    assert all_budgets(BudgetOptions(max_growth_bytes=0), NONE, "base.json")


def test_python_limits_match_the_configuration() -> None:
    snap = mr.open(ROOT / "tests" / "data" / "transformer_step.pkl.gz")
    assert mr.gate(snap, max_peak=1 << 40, name="all").passed
    assert not mr.gate(snap, max_peak="1KiB").passed
    with pytest.raises(UsageError, match=r"0\.02 is not a percentage; give 2%"):
        mr.gate(snap, base=snap, max_growth=0.02)
    with pytest.raises(UsageError, match="forbid_oom must be True or False, not 'yes'"):
        mr.gate(snap, forbid_oom="yes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_spread compares several files"):
        mr.gate(snap, max_spread="2%")
    with pytest.raises(TypeError, match="gate\\(\\) has no option 'max_peek'"):
        mr.gate(snap, max_peek=1)  # type: ignore[call-arg]
