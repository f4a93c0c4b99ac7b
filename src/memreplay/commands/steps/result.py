"""The results of `memreplay steps`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.steps.records import StepSource
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record


class Step(Record, frozen=True, kw_only=True):
    """One step: what happened after the event before `first_event`, up to `last_event`."""

    index: int
    """The step's number, from 1."""
    name: str
    """Its annotation, or empty."""
    first_event: int
    """Its first event."""
    last_event: int
    """Its last event; `first_event` - 1 if it has none."""
    start_us: int | None
    """When it began."""
    end_us: int | None
    """When it ended."""
    peak_bytes: int
    """The highest after any of its events, or before its first."""
    peak_event: int
    """The first event after which it is that high; `first_event` - 1 is the level before."""
    end_bytes: int
    """Live when it ends."""
    growth_bytes: int
    """`end_bytes` less the end of the step before, so that what happens between two steps counts
    to the later one; for the first step less what was live before it."""
    allocations: int
    """Allocations made in it."""
    allocated_bytes: int
    """Their bytes."""

    @property
    def duration_us(self) -> int | None:
        """How long it took."""
        if self.start_us is None or self.end_us is None:
            return None
        return self.end_us - self.start_us


class Outside(Record, frozen=True):
    """What happened in no step."""

    events: int
    """How many events."""
    peak_bytes: int
    """The highest level there."""
    peak_event: int
    """The event after which it is reached; -1 if there are none."""
    allocations: int
    """Allocations made there."""
    allocated_bytes: int
    """Their bytes."""


class Steady(Record, frozen=True, kw_only=True):
    """Medians over the steps after the warm-up."""

    first: int
    """The first of these steps, by its `index`."""
    last: int
    """The last."""
    peak_bytes: int
    """Of the peaks."""
    end_bytes: int
    """Of what is live when a step ends."""
    growth_bytes: int
    """Of the growth."""
    allocations: int
    """Of how many allocations a step makes."""
    allocated_bytes: int
    """Of their bytes."""
    duration_us: int | None
    """Of the durations; null if any is not known."""


class Odd(Record, frozen=True):
    """A steady step that is unlike the others in one quantity."""

    index: int
    """The step."""
    quantity: Literal["peak_bytes", "allocated_bytes", "duration_us"]
    """In what it is odd."""
    value: int
    """What it has of that."""
    median: int
    """What the steady steps have."""


class DeviceSteps(OfBackend, frozen=True, kw_only=True):
    """The steps of one device."""

    text_only = ("missing",)

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    start_us: int | None
    start_bytes: int
    """Live before the first event."""
    end_bytes: int
    """Live after the last event."""
    trusted: bool
    reasons: tuple[str, ...]
    source: StepSource | None
    """How the steps were found; null if there are none."""
    warm_up_steps: int
    """How many steps at the beginning grow as later ones do not."""
    steady: Steady | None
    """What the steps after these are like."""
    odd: tuple[Odd, ...]
    """Steady steps far from the median, the farthest first."""
    before: Outside | None
    """Before the first step."""
    between: Outside | None
    """Between the steps."""
    after: Outside | None
    """After the last step."""
    steps: tuple[Step, ...]
    """The steps, in order."""
    missing: str
    """Why there are no steps."""


class StepsReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.steps/1"):
    """What `memreplay steps` found."""

    file: str
    measure: MeasureName
    pool: tuple[int, int] | None = None
    stream: int | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSteps, ...]

    def document(self) -> Document:
        from memreplay.commands.steps.text import steps_document

        return steps_document(self)
