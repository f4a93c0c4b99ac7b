"""Budgets of a gate: what memory may cost, as options, as Python's arguments, and as the
configuration's tables say it."""

# Annotations declare options here, which each start reads: they are no text to be evaluated.
from collections.abc import Mapping
from typing import Annotated, Any, get_args

from memreplay.analysis.comparing.records import PHASES, LimitKind, Phase, PhaseChoice
from memreplay.analysis.selecting.sizes import SizeError, parse_share, parse_size
from memreplay.declared import Opt, Options, declared
from memreplay.errors import UsageError
from memreplay.snapshot.model import MeasureName

MAX_BUDGETS = 256
LIMITS: tuple[LimitKind, ...] = get_args(LimitKind)
# Of whole devices, and of measures of their own.
OF_ALL = ("max_fragmentation", "no_leaks", "no_oom")


class BudgetOptions(Options, frozen=True):
    """Limits, and what they are of: a device's memory, of a category, within an annotation or a
    phase.

    `device`, `category`, `annotation` and `phase` are None for all of it; the phase "each" is the
    whole, and each phase by itself. `max_growth` is a share of the base's peak (0.02),
    `max_fragmentation` one of reserved memory, `max_spread` one of the median of several snapshots'
    peaks.
    """

    name: str = ""
    device: int | None = None
    category: str | None = None
    annotation: str | None = None
    phase: Annotated[
        PhaseChoice | None,
        Opt(
            "Hold these limits against the peak within one phase of the training steps: forward,"
            " backward, optimizer; each: all phases, and the whole.",
            "NAME",
            rare=True,
        ),
    ] = None
    measure: Annotated[
        MeasureName,
        Opt(
            "Which bytes the limits on the peak and its growth count; held does not depend on GPU"
            " timing.",
            "NAME",
            rare=True,
        ),
    ] = "held"
    max_peak: Annotated[
        int | None, Opt("Fail if the peak is above this (38GiB).", "SIZE", parse=parse_size)
    ] = None
    max_growth: Annotated[
        float | None,
        Opt(
            "Fail if the peak is above the base's by more than this (2%).",
            "PERCENT",
            parse=parse_share,
            written=True,
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
            written=True,
            brief="Fail if more of what was reserved was unused.",
        ),
    ] = None
    max_spread: Annotated[
        float | None,
        Opt(
            "Fail if one FILE's peak is above the median of all by more than this (10%).",
            "PERCENT",
            parse=parse_share,
            written=True,
            brief="Fail if a FILE is further above the median.",
        ),
    ] = None
    no_leaks: Annotated[bool, Opt("Fail if memory grows from step to step.")] = False
    no_oom: Annotated[bool, Opt("Fail if a request for memory failed.")] = False

    @property
    def limits(self) -> tuple[LimitKind, ...]:
        """The limits that are set; 0 bytes is one, too."""
        return tuple(name for name in LIMITS if _is_set(getattr(self, name)))


class Budget(BudgetOptions, frozen=True):
    """Limits that mean something. `where` says what to call them in an error. Raises UsageError for
    a combination that means nothing."""

    where: str = "the budget"

    def __post_init__(self) -> None:
        _check(self)
        limits = self.limits
        if not limits:
            raise UsageError(f"{self.where} limits nothing: give one of {', '.join(LIMITS)}")
        if self.annotation is not None and self.phase is not None:
            raise UsageError(f"{self.where}: give an annotation or a phase, not both")
        parts = ("category", "annotation", "phase")
        part = next((one for one in parts if getattr(self, one) is not None), None)
        if part is not None:
            for limit in limits:
                if limit in OF_ALL:
                    raise UsageError(f"{self.where}: {limit} limits all memory, not one {part}")
        if self.category is not None and (self.measure == "reserved" or "max_reserved" in limits):
            raise UsageError(
                f"{self.where}: reserved memory consists of segments, which have no categories"
            )
        if self.measure == "reserved" and self.no_leaks:
            raise UsageError(f"{self.where}: leaks are in allocations, not in reserved memory")

    @property
    def phases(self) -> tuple[Phase | None, ...]:
        """Those that it is of; None is the whole recording."""
        if self.phase is None:
            return (None,)
        return (None, *PHASES) if self.phase == "each" else (self.phase,)

    @property
    def needs_base(self) -> bool:
        """Whether there is nothing to hold it against without a base."""
        return self.max_growth is not None or self.max_growth_bytes is not None


def _is_set(limit: object) -> bool:
    return limit is not None and limit is not False


def budgets_of(config: Mapping[str, object], source: str) -> tuple[Budget, ...]:
    """The budgets of a configuration's `gate` tables; `source` is what to call its file.

    Raises UsageError that names the table that is wrong.
    """
    given = config.get("gate", [])
    if not isinstance(given, list):
        raise UsageError(f"{source}: `gate` must be a list of tables ([[gate]])")
    if len(given) > MAX_BUDGETS:
        raise UsageError(f"{source}: {len(given)} gate tables; {MAX_BUDGETS} at most")
    return tuple(_parsed(one, number, source) for number, one in enumerate(given, 1))


def _parsed(given: object, number: int, source: str) -> Budget:
    where = f"{source}: gate table {number}"
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is not a table")
    name = given.get("name")
    if isinstance(name, str) and name:
        where += f" ({name!r})"
    return budget_of(given, where)


def budget_of(given: Mapping[str, object], where: str) -> Budget:
    """The budget of one table; `where` is what to call it. Raises UsageError."""
    values: dict[str, Any] = {"where": where}
    parse = {field.name: field.opt.parse for field in declared(BudgetOptions)}
    names = BudgetOptions.__struct_fields__
    for key, value in given.items():
        if key not in names:
            raise UsageError(f"{where}: unknown key {key!r}; there are: {', '.join(names)}")
        parsed = parse.get(key)
        try:
            values[key] = parsed(value) if parsed else value  # type: ignore[arg-type]
        except SizeError as error:
            raise UsageError(f"{where}: {key}: {error}") from None
    return Budget(**values)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _check(budget: Budget) -> None:
    """Raises UsageError for a value that is of another kind than its option."""
    where = budget.where
    for field in declared(BudgetOptions):
        value, choices = getattr(budget, field.name), get_args(field.kind)
        if field.kind is bool and not isinstance(value, bool):
            raise UsageError(f"{where}: {field.name} must be true or false")
        if choices and value is not None and value not in choices:
            if not isinstance(value, str) or not value:
                raise UsageError(f"{where}: {field.name} must be a string")
            there = ", ".join(choices)
            raise UsageError(f"{where}: no {field.name} is called {value!r}; there are: {there}")
        if field.kind in (int, float) and value is not None and not _is_amount(value):
            what = "size" if field.kind is int else "share"
            raise UsageError(f"{where}: {field.name}: {value!r} is not a {what} of 0 or more")
    device = budget.device
    if device is not None and (type(device) is not int or device < -1):
        raise UsageError(f"{where}: device must be a number, -1 or more")
    for name in ("name", "category", "annotation"):
        said = getattr(budget, name)
        if not isinstance(said, str | None) or (not said and said is not None and name != "name"):
            raise UsageError(f"{where}: {name} must be a string")
