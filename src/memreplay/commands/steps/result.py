"""The result of `memreplay steps`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.steps.records import StepSource
from memreplay.analysis.steps.summing import Outside, Step
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record


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
