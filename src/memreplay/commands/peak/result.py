"""The results of `memreplay peak`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.steps.records import StepAt
from memreplay.snapshot.model import By, Exactness, Filters, Group, MeasureName, Part, PeakPoint
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.groups.tree import CallTree


class CategoryBytes(NamedTuple):
    """What a category held at the peak."""

    name: str
    bytes: int
    live_count: int


class DevicePeak(Record, frozen=True):
    """The highest usage of one device by one measure, and who held it.

    `event_index` is the first event after which usage is at its maximum, -1 when that is the start.
    `trace_events` counts the whole trace. Where a range was read, `first_event` is its first
    event's index in the trace, `events` how many it has, the start is the event before
    (`first_event - 1`), and the baseline what was live then. `time_us` is that event's time (the
    first event's time for -1); None where the file has no times. `start_us` is the time of the
    first event, None likewise. `baseline_bytes` is what was live before the first event;
    `baseline_held_bytes` the part of it still live at the peak. `groups` are sorted by bytes,
    largest first; `groups_total` is how many there are before `top` cut them; the bytes and count
    of those cut are in `rest_bytes` and `rest_count`, so that everything always adds up to
    `peak_bytes`. `exactness` says whether the series is exact ("estimated": the reasons tell why);
    `trusted` also whether it is all that happened. `peaks` are the highest separate maxima, when
    they were asked for; `parts` those of pools or streams, when grouped by these. `annotations`
    are those that were open, the outermost first, and `step` is the step by them, as `memreplay
    steps` has it; `categories` are those of all that was held, largest first, empty of reserved
    memory.
    """

    device: int
    measure: MeasureName
    exactness: Exactness
    peak_bytes: int
    event_index: int
    time_us: int | None
    start_us: int | None
    baseline_bytes: int
    baseline_held_bytes: int
    final_bytes: int
    first_event: int
    events: int
    trace_events: int
    live_count: int
    groups: tuple[Group, ...]
    groups_total: int
    rest_bytes: int
    rest_count: int
    trusted: bool
    reasons: tuple[str, ...]
    peaks: tuple[PeakPoint, ...] = ()
    parts: tuple[Part, ...] = ()
    tree: CallTree | None = None
    annotations: tuple[str, ...] = ()
    step: StepAt | None = None
    categories: tuple[CategoryBytes, ...] = ()


class PeakReport(Record, frozen=True):
    """What `memreplay peak` shows: one entry a device that has events or segments.

    `truncated` says that the file is cut off, and that this is of its whole part. `pool` and
    `stream` are those that alone were asked for.
    """

    file: str
    measure: MeasureName
    by: By
    all_frames: bool
    devices: tuple[DevicePeak, ...]
    truncated: bool = False
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
