"""The data for viewers: weighted stacks, tracks over time, allocations by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memreplay.snapshot.model import Exactness, Frame, MeasureName
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memreplay.engine.query._vectors import Vector

What = Literal["live", "allocated"]


class WeightedStack(Record, frozen=True):
    """Allocations with one call path. `path`: indices into the report's frames, outermost first."""

    path: tuple[int, ...]
    bytes: int
    count: int


class DeviceStacks(Record, frozen=True):
    """One device's stacks, most bytes first. Their bytes add up to `bytes`.

    `event_index` and `time_us` give a live set's moment (None for allocated bytes); the time is
    None if the event has none.
    """

    device: int
    exactness: Exactness
    event_index: int
    time_us: int | None
    bytes: int
    count: int
    stacks: tuple[WeightedStack, ...]


class StacksReport(Record, frozen=True):
    """Bytes by stack: live at a moment, or allocated over the selected events.

    `frames` has the frames of all paths. A frame with an empty file and line 0 stands for missing
    stacks; its function gives the reason in parentheses. `missing` says why devices were left out.
    """

    file: str
    measure: MeasureName
    what: What
    all_frames: bool
    frames: tuple[Frame, ...]
    devices: tuple[DeviceStacks, ...]
    missing: tuple[str, ...]
    truncated: bool


class Track(Record, frozen=True, eq=False):
    """A measure of a device or pool over time. All columns are int64; `at_ns` never decreases.

    The first moment is the start, the last is after the last event; bytes are constant in between.
    `event` is -1 (or the event before the range) for the start.
    """

    measure: MeasureName
    pool: tuple[int, int] | None
    exactness: Exactness
    event: Vector
    at_ns: Vector
    bytes: Vector


class Slice(Record, frozen=True):
    """An annotation on its track. `open_end`: its end isn't in the file."""

    name: str
    begin_ns: int
    end_ns: int
    open_end: bool


class Mark(Record, frozen=True):
    """A moment: a peak or a failed request."""

    name: str
    at_ns: int
    event_index: int
    bytes: int | None = None


class DeviceTracks(Record, frozen=True):
    """One device's tracks.

    If `timed` is False, the events have no times and count 1 microsecond each. The slices of a lane
    nest. `stacks` is the live set at `stacks_ns` in requested bytes, or None.
    """

    device: int
    timed: bool
    tracks: tuple[Track, ...]
    lanes: tuple[tuple[Slice, ...], ...]
    marks: tuple[Mark, ...]
    stacks: DeviceStacks | None = None
    stacks_ns: int = 0


class TraceReport(Record, frozen=True):
    """All devices' tracks. Times are nanoseconds since `origin_us`, which is the time of the first
    event minus one microsecond, or None if there are no times.

    Events in the same microsecond are spread over it in order. `notes` say what is left out.
    """

    file: str
    points: int
    origin_us: int | None
    devices: tuple[DeviceTracks, ...]
    stacks: StacksReport | None
    notes: tuple[str, ...]
    truncated: bool


class CategoryEvents(Record, frozen=True, eq=False):
    """One device's allocations and frees in order, by torch.profiler's categories.

    `carried_over_bytes` and `carried_category` describe the carried-over blocks. The other columns
    have a row per change: `at_ns` since the epoch (or since the start if not `timed`, 1 microsecond
    per event), and `bytes`, negative if `is_free`. All int64, categories uint8. `recorded`: the
    recorder noted the categories; none are guessed.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    timed: bool
    carried_over_bytes: NDArray[np.int64]
    carried_category: NDArray[np.uint8]
    at_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]
    category: NDArray[np.uint8]
    is_free: NDArray[np.bool_]
    recorded: bool
    notes: tuple[str, ...]
    truncated: bool
