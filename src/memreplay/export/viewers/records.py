"""What viewers are given: weighted stacks, tracks over time, allocations by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memreplay.snapshot.model import Exactness, Frame, MeasureName
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

What = Literal["live", "allocated"]


class WeightedStack(Record, frozen=True):
    """Allocations of one path of calls: `path` indexes into the frames of the report, outermost
    first."""

    path: tuple[int, ...]
    bytes: int
    count: int


class DeviceStacks(Record, frozen=True):
    """The stacks of one device, those with the most bytes first; they add up to `bytes`.

    `event_index` and `time_us` are the moment of a live set, of what was allocated the last event;
    the time is None where there is none.
    """

    device: int
    exactness: Exactness
    event_index: int
    time_us: int | None
    bytes: int
    count: int
    stacks: tuple[WeightedStack, ...]


class StacksReport(Record, frozen=True):
    """Who held the memory at a moment, or who allocated over the events that were read.

    `frames` are those of all paths; one with an empty file and line 0 stands for what has no stack,
    and its function says why in parentheses. `missing` says of devices that are left out why.
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
    """A measure of a device, or of one of its pools, at some moments: all int64, `at_ns` never
    falls.

    The first is the start, the last is after the last event; between them bytes stay as they are
    until the next. `event` is -1 (or the event before the range) for the start.
    """

    measure: MeasureName
    pool: tuple[int, int] | None
    exactness: Exactness
    event: NDArray[np.int64]
    at_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]


class Slice(Record, frozen=True):
    """An annotation on its track. It has no end in the file where `open_end`."""

    name: str
    begin_ns: int
    end_ns: int
    open_end: bool


class Mark(Record, frozen=True):
    """Something at one moment: a peak, or memory that was out."""

    name: str
    at_ns: int
    event_index: int
    bytes: int | None = None


class DeviceTracks(Record, frozen=True):
    """What one device did over time.

    `timed` is False where events have no times: an event is then 1 microsecond. Slices of a lane
    nest. `stacks` is the live set that was asked for, at `stacks_ns`; None without.
    """

    device: int
    timed: bool
    tracks: tuple[Track, ...]
    lanes: tuple[tuple[Slice, ...], ...]
    marks: tuple[Mark, ...]
    stacks: DeviceStacks | None = None
    stacks_ns: int = 0


class TraceReport(Record, frozen=True):
    """Tracks of all devices. Moments are nanoseconds since `origin_us` (since the epoch; None where
    there are no times), which is a microsecond before the first event.

    Events of the same microsecond are spread over it in their order. `notes` say what is left out.
    """

    file: str
    points: int
    origin_us: int | None
    devices: tuple[DeviceTracks, ...]
    stacks: StacksReport | None
    notes: tuple[str, ...]
    truncated: bool


class CategoryEvents(Record, frozen=True, eq=False):
    """What came and went on one device, in order, by the categories of torch.profiler.

    `carried_over_bytes` and `carried_category` are of the carried blocks. Then a row each: `at_ns`
    since the epoch (or, not `timed`, since the start: an event is 1 microsecond), `bytes` above 0
    where memory was allocated, below where it was freed (`is_free`); all int64 but categories (u8).
    `recorded`: memreplay's recorder noted the categories, and nothing is guessed.
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
