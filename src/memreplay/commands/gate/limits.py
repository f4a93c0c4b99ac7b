"""The budgets of `memreplay gate`, from its options and the configuration."""

from __future__ import annotations

from collections.abc import Iterator

from memreplay.analysis.comparing.budgets import (
    LIMITS,
    OF_ALL,
    Budget,
    BudgetOptions,
    budgets_of,
    spelled,
)
from memreplay.commands.shared.config import ConfigChoice
from memreplay.errors import UsageError

WHERE = "the command line"


def given_budgets(options: BudgetOptions) -> Iterator[Budget]:
    """Yield the options' budget. With a phase, yield another budget for limits that don't apply to
    phases.
    """
    parts = limits = {name: getattr(options, name) for name in options.limits}
    if options.phase is not None:
        parts = {name: one for name, one in limits.items() if name not in OF_ALL}
        if not parts:
            raise UsageError(
                "--phase needs a limit on the peak or its growth, such as --max-growth"
            )
        yield Budget(where=WHERE, measure=options.measure, phase=options.phase, **parts)
        parts = {name: one for name, one in limits.items() if name in OF_ALL}
    if parts:
        yield Budget(where=WHERE, measure=options.measure, **parts)


def configured_budgets(config: ConfigChoice) -> tuple[Budget, ...]:
    """Return the configuration's budgets."""
    found = config.load()
    return budgets_of(found.table, found.name)


def all_budgets(
    options: BudgetOptions, config: ConfigChoice, base: str | None
) -> tuple[Budget, ...]:
    """Return the options' budgets, then the configuration's.

    Raises UsageError if there are none, if one is invalid, or if one needs a base and there is
    none.
    """
    configured = configured_budgets(config)
    budgets = (*given_budgets(options), *configured)
    if not budgets:
        raise UsageError(
            f"no limit is set; give one of {', '.join(spelled(LIMITS))}, or --config FILE"
            " with [[gate]] tables"
        )
    for one in budgets:
        if one.needs_base and base is None:
            raise UsageError(f"{one.where} limits growth; give the base with --base")
    return budgets
