"""The result of `memreplay steps`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.steps.records import StepSource
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record


class Step(Record, frozen=True, kw_only=True):
    """One step, which consists of the events from `first_event` to `last_event`."""

    number: int
    """Number of the step, from 1."""
    name: str
    """The step's annotation, or ""."""
    first_event: int
    """First event of the step."""
    last_event: int
    """Last event of the step; `first_event` - 1 if the step is empty."""
    start_us: int | None
    """Start time."""
    end_us: int | None
    """End time."""
    peak_bytes: int
    """The highest usage after any of the step's events, or before its first event."""
    peak_event: int
    """The first event after which usage is this high; `first_event` - 1 if that's the usage before
    the step.
    """
    end_bytes: int
    """Bytes live at the step's end."""
    growth_bytes: int
    """`end_bytes` minus the previous step's, so events between two steps count towards the later
    one. For the first step, `end_bytes` minus the usage before the step.
    """
    allocation_count: int
    """Number of allocations."""
    allocated_bytes: int
    """Bytes of the step's allocations."""

    @property
    def duration_us(self) -> int | None:
        """Duration of the step."""
        if self.start_us is None or self.end_us is None:
            return None
        return self.end_us - self.start_us


class Outside(Record, frozen=True):
    """Events outside all steps."""

    events: int
    """Number of events."""
    peak_bytes: int
    """The highest usage."""
    peak_event: int
    """The first event after which usage is this high; -1 if there are no events."""
    allocation_count: int
    """Number of allocations."""
    allocated_bytes: int
    """Bytes of the allocations outside all steps."""


class Steady(Record, frozen=True, kw_only=True):
    """Medians over the steps after the warm-up."""

    first: int
    """`number` of the first step after the warm-up."""
    last: int
    """`number` of the last step that the medians cover."""
    peak_bytes: int
    """Median peak."""
    end_bytes: int
    """Median number of bytes live at a step's end."""
    growth_bytes: int
    """Median growth per step."""
    allocation_count: int
    """Median number of allocations."""
    allocated_bytes: int
    """Median number of allocated bytes."""
    duration_us: int | None
    """Median duration; null if any is unknown."""


class Odd(Record, frozen=True):
    """A step after the warm-up that differs from the others in one quantity."""

    number: int
    """The step."""
    quantity: Literal["peak_bytes", "allocated_bytes", "duration_us"]
    """The quantity in which the step differs."""
    value: int
    """The step's value."""
    median: int
    """The median of the steady steps."""


class DeviceSteps(OfBackend, frozen=True, kw_only=True):
    """One device's steps."""

    text_only = ("missing", "missing_brief")

    device: int
    measure: MeasureName
    exactness: Exactness
    first_event: int
    events: int
    start_us: int | None
    start_bytes: int
    """Bytes live before the first event."""
    end_bytes: int
    """Bytes live after the last event."""
    trusted: bool
    reasons: tuple[str, ...]
    step_source: StepSource | None
    """How the steps were found; null without steps."""
    warm_up_steps: int
    """Number of steps at the beginning that grow unlike later ones."""
    steady: Steady | None
    """Medians of the later steps."""
    odd: tuple[Odd, ...]
    """Steps after the warm-up that are far from the median, farthest first."""
    before: Outside | None
    """Events before the first step."""
    between: Outside | None
    """Events between steps."""
    after: Outside | None
    """Events after the last step."""
    steps: tuple[Step, ...]
    """The steps in order."""
    missing: str
    """Why there are no steps; "" if there are."""
    missing_brief: str = ""
    """`missing` without what to do."""


class StepsReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.steps/1"):
    """The result of `memreplay steps`."""

    file: str
    measure: MeasureName
    pool: tuple[int, int] | None = None
    stream: int | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSteps, ...]

    @property
    def found(self) -> bool:
        """Whether any device has steps that aren't just the whole recording."""
        sources = (device.step_source for device in self.devices)
        return any(source is not None and not source.is_whole for source in sources)

    def document(self) -> Document:
        from memreplay.commands.steps.text import steps_document

        return steps_document(self)
