"""Usage at annotations; requests that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.model import (
    Exactness,
    MeasureName,
    OfBackend,
)
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    pass


class AnnotationUsage(Record, frozen=True, kw_only=True):
    """An annotation, with the usage at its start and end, and the highest within."""

    name: str
    """What it is called."""
    depth: int
    """How many others it lies in."""
    start_us: int
    """When it begins."""
    end_us: int | None
    """When it ends; null if the end is not in the file."""
    start_event: int
    """The last event before it begins."""
    end_event: int | None
    """The last event until it ends; null if the end is not in the file."""
    start_bytes: int | None
    """The usage when it begins; null if that is before what was read."""
    peak_bytes: int
    """The highest usage in it."""
    peak_event: int
    """The first event after which usage is that high."""
    end_bytes: int | None
    """The usage when it ends; null if that is after what was read."""


class DeviceAnnotations(OfBackend, frozen=True, kw_only=True):
    """The annotations of one device."""

    text_only = ("start_us",)

    device: int
    measure: MeasureName
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    peak_bytes: int
    """The highest of the measure in what was read."""
    annotations_total: int
    """How many annotations there are, before `--top` cut them."""
    annotations: tuple[AnnotationUsage, ...]
    """Those that reach highest, in the order in which they begin."""
    start_us: int | None


class OutOfMemory(Record, frozen=True):
    """An event that says that the allocator could not serve a request."""

    event_index: int
    """Its index."""
    time_us: int | None
    """Its time."""
