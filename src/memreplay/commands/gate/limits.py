"""The limits of `memreplay gate`, as options and as the configuration has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from memreplay.analysis.comparing.budgets import LIMITS, OF_ALL, Budget, budgets_of
from memreplay.analysis.comparing.records import PhaseChoice
from memreplay.analysis.selecting.sizes import parse_share, parse_size
from memreplay.commands.shared.config import ConfigChoice
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.snapshot.model import MeasureName

WHERE = "the command line"


class BudgetOptions(Options, frozen=True):
    """The limits, and what they are of."""

    max_peak: Annotated[
        int | None, Opt("Fail if the peak is above this (38GiB).", "SIZE", parse=parse_size)
    ] = None
    max_growth: Annotated[
        float | None,
        Opt(
            "Fail if the peak is above the base's by more than this (2%).",
            "PERCENT",
            parse=parse_share,
            brief="Fail if the peak grew by more than this (2%).",
        ),
    ] = None
    max_growth_bytes: Annotated[
        int | None,
        Opt(
            "Fail if the peak is above the base's by more than this (256MiB).",
            "SIZE",
            parse=parse_size,
            brief="Fail if the peak grew by more than this.",
        ),
    ] = None
    max_reserved: Annotated[
        int | None,
        Opt(
            "Fail if the peak of reserved memory is above this.",
            "SIZE",
            parse=parse_size,
            brief="Fail if more was reserved at the peak.",
        ),
    ] = None
    max_fragmentation: Annotated[
        float | None,
        Opt(
            "Fail if more than this share of the reserved memory was never in use (20%).",
            "PERCENT",
            parse=parse_share,
            brief="Fail if more of what was reserved was unused.",
        ),
    ] = None
    max_spread: Annotated[
        float | None,
        Opt(
            "Fail if one FILE's peak is above the median of all by more than this (10%).",
            "PERCENT",
            parse=parse_share,
            brief="Fail if a FILE is further above the median.",
        ),
    ] = None
    no_leaks: Annotated[bool, Opt("Fail if memory grows from step to step.")] = False
    no_oom: Annotated[bool, Opt("Fail if a request for memory failed.")] = False
    measure: Annotated[
        MeasureName,
        Opt(
            "Which bytes the limits on the peak and its growth count; held does not depend on GPU"
            " timing.",
            "NAME",
            rare=True,
        ),
    ] = "held"
    phase: Annotated[
        PhaseChoice | None,
        Opt(
            "Hold these limits against the peak within one phase of the training steps: forward,"
            " backward, optimizer; each: all phases, and the whole.",
            "NAME",
            rare=True,
        ),
    ] = None

    @property
    def limits(self) -> dict[str, Any]:
        """The limits that were given; 0 bytes is one, too."""
        given = {name: getattr(self, name) for name in LIMITS}
        return {name: one for name, one in given.items() if one is not None and one is not False}

    def budgets(self) -> Iterator[Budget]:
        """One, or with a phase one more of the limits that have none."""
        limits = self.limits
        parts = limits
        if self.phase is not None:
            parts = {name: one for name, one in limits.items() if name not in OF_ALL}
            if not parts:
                raise UsageError(
                    "--phase needs a limit on the peak or its growth, such as --max-growth"
                )
            yield Budget(where=WHERE, measure=self.measure, phase=self.phase, **parts)
            parts = {name: one for name, one in limits.items() if name in OF_ALL}
        if parts:
            yield Budget(where=WHERE, measure=self.measure, **parts)


def configured_budgets(config: ConfigChoice) -> tuple[Budget, ...]:
    """Those of the configuration."""
    found = config.load()
    return budgets_of(found.table, found.name)


def all_budgets(
    options: BudgetOptions, config: ConfigChoice, base: str | None
) -> tuple[Budget, ...]:
    """Those of the options, then those of the configuration.

    Raises UsageError where there are none, where one means nothing, or needs a base.
    """
    configured = configured_budgets(config)
    budgets = (*options.budgets(), *configured)
    if not budgets:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in LIMITS)
        raise UsageError(f"no limit is set: give one of {names}, or [[gate]] in memreplay.toml")
    for one in budgets:
        if one.needs_base and base is None:
            raise UsageError(f"{one.where} limits growth: give the base with --base")
    return budgets
