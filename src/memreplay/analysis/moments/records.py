"""Usage at annotations; requests that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.model import (
    Exactness,
    MeasureName,
)
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    pass


class Stage(Record, frozen=True):
    """The usage at an annotation's start and end, and the highest within.

    Events, times and the order are as in Span; `depth` counts the annotations that it lies in.
    `start_bytes` and `end_bytes` are None where what was read does not tell: it began before, or
    does not end in it.
    """

    name: str
    depth: int
    start_us: int
    end_us: int | None
    start_event: int
    end_event: int | None
    start_bytes: int | None
    peak_bytes: int
    peak_event: int
    end_bytes: int | None


class DeviceStages(Record, frozen=True):
    """The annotations of one device: those that reach highest, of `stages_total`, in the order in
    which they begin."""

    device: int
    measure: MeasureName
    exactness: Exactness
    start_us: int | None
    peak_bytes: int
    trusted: bool
    reasons: tuple[str, ...]
    stages: tuple[Stage, ...]
    stages_total: int


class OutOfMemory(Record, frozen=True):
    """An event that says that the allocator could not serve a request."""

    event_index: int
    time_us: int | None
