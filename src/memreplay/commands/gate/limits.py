"""The limits of `memreplay gate`, as options and as the configuration has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memreplay.analysis.comparing.records import PHASE_CHOICES
from memreplay.commands.shared.options import MEASURES
from memreplay.commands.shared.size import ShareType, SizeType
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.commands.shared.config import ConfigChoice

F = TypeVar("F", bound=Callable[..., Any])
_SCOPE = ("measure", "phase")  # what is limited
NAMES = (
    "max_peak",
    "max_growth",
    "max_growth_bytes",
    "max_reserved",
    "max_fragmentation",
    "max_spread",
    "no_leaks",
    "no_oom",
)


def budget_options(function: F) -> F:
    """--max-peak and the other limits, with --measure, as one argument `budget`: those given."""

    @functools.wraps(function)
    def command(*args: Any, measure: str, phase: str | None, **kwargs: Any) -> Any:
        limits = {name: kwargs.pop(name) for name in NAMES}
        # A limit of 0 bytes is one, too.
        given = {name: one for name, one in limits.items() if one is not None and one is not False}
        if phase is not None:
            given["phase"] = phase
        return function(*args, budget={"measure": measure, **given}, **kwargs)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


_OPTIONS = (
    click.option(
        "--max-peak",
        type=SizeType(),
        metavar="SIZE",
        help="Fail if the peak is above this (38GiB).",
    ),
    click.option(
        "--max-growth",
        type=ShareType(),
        metavar="PERCENT",
        help="Fail if the peak is above the base's by more than this (2%).",
    ),
    click.option(
        "--max-growth-bytes",
        type=SizeType(),
        metavar="SIZE",
        help="Fail if the peak is above the base's by more than this (256MiB).",
    ),
    click.option(
        "--max-reserved",
        type=SizeType(),
        metavar="SIZE",
        help="Fail if the peak of reserved memory is above this.",
    ),
    click.option(
        "--max-fragmentation",
        type=ShareType(),
        metavar="PERCENT",
        help="Fail if more than this share of the reserved memory was never in use (20%).",
    ),
    click.option(
        "--max-spread",
        type=ShareType(),
        metavar="PERCENT",
        help="Fail if one FILE's peak is above the median of all by more than this (10%).",
    ),
    click.option("--no-leaks", is_flag=True, help="Fail if memory grows from step to step."),
    click.option("--no-oom", is_flag=True, help="Fail if a request for memory failed."),
    click.option(
        "--measure",
        type=click.Choice(MEASURES),
        default="held",
        show_default=True,
        help="Which bytes the limits on the peak and its growth count; held does not depend on"
        " GPU timing.",
    ),
    click.option(
        "--phase",
        type=click.Choice(PHASE_CHOICES),
        default=None,
        help="Hold these limits against the peak within one phase of the training steps; each: all"
        " phases, and the whole.",
    ),
)


def _given_budgets(given: dict[str, Any]) -> Iterator[Budget]:
    """Those of the options: one, or with a phase one more of the limits that have none."""
    from memreplay.analysis.comparing.budgets import OF_ALL, Budget

    whole = {name: one for name, one in given.items() if name != "phase"}
    if "phase" in given:
        parts = {name: one for name, one in given.items() if name not in OF_ALL}
        if len(parts) == len(_SCOPE):
            raise UsageError(
                "--phase needs a limit on the peak or its growth, such as --max-growth"
            )
        yield Budget(where="the command line", **parts)
        whole = {name: one for name, one in whole.items() if name in (*OF_ALL, "measure")}
    if len(whole) > 1:
        yield Budget(where="the command line", **whole)


def all_budgets(
    budget: dict[str, Any], config: ConfigChoice, base: str | None
) -> tuple[Budget, ...]:
    """Those of the options, then those of the configuration.

    Raises UsageError where there are none, where one means nothing, or needs a base.
    """
    from memreplay.analysis.comparing.budgets import LIMITS, budgets_of

    found = config.load()
    budgets = budgets_of(found.table, found.name)
    budgets = (*_given_budgets(budget), *budgets)
    if not budgets:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in LIMITS)
        raise UsageError(f"no limit is set: give one of {options}, or [[gate]] in memreplay.toml")
    for one in budgets:
        if one.needs_base and base is None:
            raise UsageError(f"{one.where} limits growth: give the base with --base")
    return budgets
