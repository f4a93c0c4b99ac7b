"""The results of `memreplay steps`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memreplay.analysis.steps.records import StepSource
from memreplay.snapshot.brief import Brief
from memreplay.snapshot.model import Exactness, MeasureName


@dataclass(frozen=True, slots=True)
class Step(Brief):
    """One step: what happened after the event before `first_event`, up to `last_event`.

    `number` counts from 1. A step without events has `last_event` = `first_event` - 1. `peak_bytes`
    is the highest after any of its events, or before the first (`first_event` - 1 is its event
    then). `growth_bytes` is `end_bytes` less the end of the step before, so that what happens
    between two steps counts to the later one; for the first step less what was live before it.
    Times are None where the file has none.
    """

    number: int
    name: str
    first_event: int
    last_event: int
    start_us: int | None
    end_us: int | None
    peak_bytes: int
    peak_event: int
    end_bytes: int
    growth_bytes: int
    allocations: int
    allocated_bytes: int

    @property
    def duration_us(self) -> int | None:
        """How long it took."""
        if self.start_us is None or self.end_us is None:
            return None
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class Outside(Brief):
    """What happened in no step: before the first, between two, or after the last."""

    events: int
    peak_bytes: int
    peak_event: int
    allocations: int
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class Steady(Brief):
    """Medians over the steps `first` to `last` (numbers): those after the warm-up."""

    first: int
    last: int
    peak_bytes: int
    end_bytes: int
    growth_bytes: int
    allocations: int
    allocated_bytes: int
    duration_us: int | None


@dataclass(frozen=True, slots=True)
class Odd(Brief):
    """A steady step that is unlike the others in one quantity, whose median is `median`."""

    number: int
    quantity: Literal["peak_bytes", "allocated_bytes", "duration_us"]
    value: int
    median: int


@dataclass(frozen=True, slots=True)
class DeviceSteps(Brief):
    """The steps of one device; `source` is None where none were found, and `missing` says why.

    The first `warm_up` steps grew as the later ones do not.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    start_us: int | None
    start_bytes: int
    final_bytes: int
    source: StepSource | None
    missing: str
    steps: tuple[Step, ...]
    before: Outside | None
    between: Outside | None
    after: Outside | None
    warm_up: int
    steady: Steady | None
    odd: tuple[Odd, ...]
    trusted: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepsReport(Brief):
    """What `memreplay steps` shows; `top` is how many steps a table has (0: all)."""

    file: str
    measure: MeasureName
    top: int
    devices: tuple[DeviceSteps, ...]
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
