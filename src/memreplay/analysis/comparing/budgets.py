"""Budgets of a gate: what memory may cost, as options and the configuration's tables say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from memreplay.analysis.comparing.records import (
    PHASE_CHOICES,
    PHASES,
    LimitKind,
    Phase,
    PhaseChoice,
)
from memreplay.analysis.selecting.sizes import SizeError, parse_share, parse_size
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES

if TYPE_CHECKING:
    from memreplay.snapshot.model import MeasureName

MAX_BUDGETS = 256
LIMITS: tuple[LimitKind, ...] = get_args(LimitKind)
_SIZES = ("max_peak", "max_growth_bytes", "max_reserved")
_FLAGS = ("no_leaks", "no_oom")
# Of whole devices, and of measures of their own.
OF_ALL = ("max_fragmentation", "no_leaks", "no_oom")


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on one thing: a device's memory, of a category, within an annotation or a phase.

    `device`, `category`, `annotation` and `phase` are None for all of it; the phase "each" is the
    whole, and each phase by itself. `max_growth` is a share of the
    base's peak (0.02), `max_fragmentation` one of reserved memory, `max_spread` one of the median
    of several snapshots' peaks. `where` says what to call the budget in an error. Raises UsageError
    for a combination that means nothing.
    """

    name: str = ""
    device: int | None = None
    category: str | None = None
    annotation: str | None = None
    phase: PhaseChoice | None = None
    measure: MeasureName = "held"
    max_peak: int | None = None
    max_growth: float | None = None
    max_growth_bytes: int | None = None
    max_reserved: int | None = None
    max_fragmentation: float | None = None
    max_spread: float | None = None
    no_leaks: bool = False
    no_oom: bool = False
    where: str = "the budget"

    def __post_init__(self) -> None:
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
    def limits(self) -> tuple[LimitKind, ...]:
        """The limits that are set."""
        return tuple(name for name in LIMITS if _is_set(getattr(self, name)))

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


_KEYS = tuple(field.name for field in fields(Budget) if field.name != "where")


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
    for key, value in given.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; there are: {', '.join(_KEYS)}")
        values[key] = _value(key, value, where)
    return Budget(**values)


def _value(key: str, value: object, where: str) -> object:
    try:
        if key in _SIZES:
            return parse_size(value)
        if key in ("max_growth", "max_fragmentation", "max_spread"):
            return parse_share(value)
    except SizeError as error:
        raise UsageError(f"{where}: {key}: {error}") from None
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: {key} must be true or false")
    elif key == "device":
        if not isinstance(value, int) or isinstance(value, bool) or value < -1:
            raise UsageError(f"{where}: device must be a number, -1 or more")
    elif not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} must be a string")
    elif key == "phase" and value not in PHASE_CHOICES:
        there = ", ".join(PHASE_CHOICES)
        raise UsageError(f"{where}: no phase is called {value!r}; there are: {there}")
    elif key == "measure" and value not in MEASURES:
        there = ", ".join(MEASURES)
        raise UsageError(f"{where}: no measure is called {value!r}; there are: {there}")
    return value
