"""Records of usage within annotations, and of failed requests."""

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
    """An annotation, with the usage at its start and end and the peak within it."""

    name: str
    """Name."""
    depth: int
    """Number of enclosing annotations."""
    start_us: int
    """Start time."""
    end_us: int | None
    """End time; null if the file doesn't have the end."""
    start_event: int
    """Last event before the start."""
    end_event: int | None
    """Last event before the end; null if the file doesn't have the end."""
    start_bytes: int | None
    """Usage at the start; null if the start is before the selected events."""
    peak_bytes: int
    """Peak within the annotation."""
    peak_event: int
    """First event after which the peak is reached."""
    end_bytes: int | None
    """Usage at the end; null if the end is after the selected events."""


class DeviceAnnotations(OfBackend, frozen=True, kw_only=True):
    """One device's annotations."""

    text_only = ("start_us",)

    device: int
    measure: MeasureName
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    peak_bytes: int
    """Peak of the measure in the selected events."""
    annotations_total: int
    """Number of annotations before `--top`."""
    annotations: tuple[AnnotationUsage, ...]
    """The `--top` annotations with the highest peaks, ordered by start."""
    start_us: int | None


class OutOfMemory(Record, frozen=True):
    """An event at which the allocator couldn't serve a request."""

    event_index: int
    """Index of the event."""
    time_us: int | None
    """Time of the event."""
