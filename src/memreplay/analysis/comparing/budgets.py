"""A gate's budgets, from options, Python arguments or configuration tables."""

# No `from __future__ import annotations`, because annotations declare options and are read on every
# start.
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args

from memreplay.analysis.comparing.records import PHASES, LimitKind, Phase, PhaseChoice
from memreplay.analysis.selecting.sizes import SizeError, parse_share, parse_size
from memreplay.declared import Opt, Options, Shared, declared
from memreplay.errors import UsageError
from memreplay.snapshot.model import MeasureName

MAX_BUDGETS = 256
LIMITS: tuple[LimitKind, ...] = get_args(LimitKind)
# Limits that apply to whole devices and have their own measures.
OF_ALL = ("max_fragmentation", "forbid_leaks", "forbid_oom")


FORBID = Shared("--forbid", "Fail on")


class BudgetOptions(Options, frozen=True):
    """Limits and their scope: a device, category, annotation or phase.

    `device`, `category`, `annotation` and `phase` are None for everything; the phase "each" means
    the whole run and each phase. `max_growth` is a share of the base's peak (such as 0.02),
    `max_fragmentation` is a share of reserved memory, and `max_spread` is a share of the median
    peak of several snapshots.
    """

    name: str = ""
    device: int | None = None
    category: str | None = None
    annotation: str | None = None
    phase: Annotated[
        PhaseChoice | None,
        Opt(
            "Apply these limits to the peak within one phase of the training steps: forward,"
            " backward or optimizer. Use each for every phase and the whole run.",
            "NAME",
            rare=True,
        ),
    ] = None
    measure: Annotated[
        MeasureName,
        Opt(
            "Which bytes to count in the peak and its growth. held doesn't depend on GPU timing.",
            "NAME",
            rare=True,
        ),
    ] = "held"
    max_peak: Annotated[
        int | None, Opt("Fail if the peak is above this, such as 38GiB.", "SIZE", parse=parse_size)
    ] = None
    max_growth: Annotated[
        float | None,
        Opt(
            "Fail if the peak grew by more than this since the base, such as 2%.",
            "PERCENT",
            parse=parse_share,
            written=True,
            brief="Fail if the peak grew by more than this share.",
        ),
    ] = None
    max_growth_bytes: Annotated[
        int | None,
        Opt(
            "Fail if the peak grew by more than this since the base, such as 256MiB.",
            "SIZE",
            parse=parse_size,
            brief="Fail if the peak grew by more than this.",
        ),
    ] = None
    max_reserved: Annotated[
        int | None,
        Opt(
            "Fail if peak reserved memory is above this.",
            "SIZE",
            parse=parse_size,
        ),
    ] = None
    max_fragmentation: Annotated[
        float | None,
        Opt(
            "Fail if peak reserved is above peak active by more than this share, such as 20%.",
            "PERCENT",
            parse=parse_share,
            written=True,
            brief="Fail if unused reserved memory exceeds this.",
        ),
    ] = None
    max_spread: Annotated[
        float | None,
        Opt(
            "Fail if any FILE's peak exceeds the median by more than this, such as 10%.",
            "PERCENT",
            parse=parse_share,
            written=True,
            brief="Fail if a peak exceeds the median by this much.",
        ),
    ] = None
    forbid_leaks: Annotated[bool, Opt("memory grows from step to step", of=FORBID, key="leaks")] = (
        False
    )
    forbid_oom: Annotated[bool, Opt("a request for memory failed", of=FORBID, key="oom")] = False

    @property
    def limits(self) -> tuple[LimitKind, ...]:
        """The limits that are set, including limits of 0 bytes."""
        return tuple(name for name in LIMITS if _is_set(getattr(self, name)))


def spelled(limits: Iterable[str]) -> Iterator[str]:
    """The limits, written as command-line options."""
    fields = {field.name: field for field in declared(BudgetOptions)}
    return (fields[name].spelled for name in limits)


class Budget(BudgetOptions, frozen=True):
    """A valid combination of limits and their scope. `where` names it in errors. Raises UsageError
    for an invalid combination.
    """

    where: str = "the budget"

    def __post_init__(self) -> None:
        _check(self)
        limits = self.limits
        if not limits:
            raise UsageError(f"{self.where} sets no limit; give one of {', '.join(LIMITS)}")
        if self.annotation is not None and self.phase is not None:
            raise UsageError(f"{self.where}: give either an annotation or a phase")
        parts = ("category", "annotation", "phase")
        part = next((one for one in parts if getattr(self, one) is not None), None)
        if part is not None:
            for limit in limits:
                if limit in OF_ALL:
                    raise UsageError(
                        f"{self.where}: {limit} applies to all memory, not to one {part}"
                    )
        if self.category is not None and (self.measure == "reserved" or "max_reserved" in limits):
            raise UsageError(
                f"{self.where}: reserved memory has no categories; choose another measure"
            )
        if self.measure == "reserved" and self.forbid_leaks:
            raise UsageError(f"{self.where}: reserved memory can't leak; choose another measure")

    @property
    def phases(self) -> tuple[Phase | None, ...]:
        """The phases that the budget covers; None is the whole recording."""
        if self.phase is None:
            return (None,)
        return (None, *PHASES) if self.phase == "each" else (self.phase,)

    @property
    def needs_base(self) -> bool:
        """Whether the budget requires a base."""
        return self.max_growth is not None or self.max_growth_bytes is not None


def _is_set(limit: object) -> bool:
    return limit is not None and limit is not False


def budgets_of(config: Mapping[str, object], source: str) -> tuple[Budget, ...]:
    """Parse a configuration's `gate` tables. `source`: the file's name.

    Raises UsageError naming the invalid table.
    """
    given = config.get("gate", [])
    if not isinstance(given, list):
        raise UsageError(f"{source}: `gate` must be a list of tables ([[gate]])")
    if len(given) > MAX_BUDGETS:
        raise UsageError(
            f"{source}: {len(given)} gate tables, but at most {MAX_BUDGETS} are allowed"
        )
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
    """Parse one table. `where`: its name in errors. Raises UsageError for an invalid table."""
    values: dict[str, Any] = {"where": where}
    parse = {field.name: field.opt.parse for field in declared(BudgetOptions)}
    names = BudgetOptions.__struct_fields__
    for key, value in given.items():
        if key not in names:
            raise UsageError(f"{where}: unknown key {key!r}; known keys: {', '.join(names)}")
        parsed = parse.get(key)
        try:
            values[key] = parsed(value) if parsed else value  # type: ignore[arg-type]
        except SizeError as error:
            raise UsageError(f"{where}: {key}: {error}") from None
    return Budget(**values)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _check(budget: Budget) -> None:
    """Raise UsageError for a value of the wrong type."""
    where = budget.where
    for field in declared(BudgetOptions):
        value, choices = getattr(budget, field.name), get_args(field.kind)
        if field.kind is bool and not isinstance(value, bool):
            raise UsageError(f"{where}: {field.name} must be true or false")
        if choices and value is not None and value not in choices:
            if not isinstance(value, str) or not value:
                raise UsageError(f"{where}: {field.name} must be a string")
            there = ", ".join(choices)
            raise UsageError(f"{where}: no {field.name} is called {value!r}; known: {there}")
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
