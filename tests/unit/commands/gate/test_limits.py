"""Tests of commands/gate/limits.py; what a gate does with them, test_gate.py has."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from memreplay.analysis.comparing.records import LimitKind
from memreplay.commands.gate.limits import NAMES, all_budgets, budget_options
from memreplay.commands.shared.config import ConfigChoice
from memreplay.errors import UsageError

NONE = ConfigChoice(no_config=True)


@click.command()
@budget_options
def command(budget: dict[str, Any]) -> None:
    click.echo(repr(budget))


@pytest.mark.parametrize(
    "arguments, budget",
    [
        ([], {"measure": "held"}),
        (["--max-peak", "0"], {"measure": "held", "max_peak": 0}),
        (
            ["--max-growth", "0%", "--no-oom"],
            {"measure": "held", "max_growth": 0.0, "no_oom": True},
        ),
        (
            ["--max-reserved", "1K", "--measure", "active"],
            {"measure": "active", "max_reserved": 1024},
        ),
    ],
)
def test_what_was_given(runner: CliRunner, arguments: list[str], budget: dict[str, Any]) -> None:
    assert runner.invoke(command, arguments).stdout == f"{budget!r}\n"


def test_there_is_an_option_for_each_limit() -> None:
    from typing import get_args

    assert get_args(LimitKind) == NAMES


def test_as_budgets() -> None:
    (found,) = all_budgets({"measure": "active", "max_peak": 7}, NONE, None)
    assert (found.measure, found.max_peak) == ("active", 7)
    with pytest.raises(UsageError, match=r"no limit is set: give one of --max-peak, .* or \[\["):
        all_budgets({"measure": "held"}, NONE, None)
    with pytest.raises(UsageError, match="the command line limits growth: give the base"):
        all_budgets({"measure": "held", "max_growth_bytes": 0}, NONE, None)
    assert all_budgets({"measure": "held", "max_growth_bytes": 0}, NONE, "base.json")
