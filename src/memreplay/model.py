"""The results of memreplay as frozen dataclasses: plain data, no behaviour, no I/O.

Units everywhere: bytes are int and named `*_bytes`; times are int microseconds since the epoch and
named `*_us`; an event is named by (device, index in that device's trace), and index -1 is the
start, before the first event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

By = Literal["stack", "frame", "file", "function", "pool", "stream"]
Exactness = Literal["exact", "estimated"]
MeasureName = Literal["requested", "held", "active", "allocated", "reserved"]
MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated", "reserved")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a call stack. `line` is 0 where the recorder knew none (C++ frames)."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Group:
    """Allocations that share a call stack (or frame, file, function), held at one moment.

    `frames` is innermost first: the whole stack when grouped by stack; the one frame when grouped
    by frame; a frame with an empty function and line 0 when grouped by file; with an empty file and
    line 0 when grouped by function; empty where there is no stack, and then `label` says why in
    parentheses. `user` indexes into `frames`: the frames that are the user's own code, not the
    plumbing of PyTorch, Python or C++; `label` is made of the innermost of them (else of the
    innermost frame). `share` is bytes / the whole, 0.0 to 1.0.
    """

    label: str
    bytes: int
    count: int
    share: float
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A measure's share of one pool or stream; both None where it is not known.

    `bytes`, `count` (allocations; 0 of reserved memory) and `reserved_bytes` are at the moment that
    was asked for. Peaks are the part's own, each with its event. `pool` is
    (0, 0) for the default, first not 0 for a CUDA graph's, second not 0 for a MemPool.
    """

    pool: tuple[int, int] | None
    stream: int | None
    bytes: int
    count: int
    start_bytes: int
    peak_bytes: int
    peak_event: int
    final_bytes: int
    reserved_bytes: int
    reserved_peak_bytes: int
    reserved_peak_event: int
    reserved_final_bytes: int


@dataclass(frozen=True, slots=True)
class DevicePeak:
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
    they were asked for; `parts` those of pools or streams, when grouped by these.
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


@dataclass(frozen=True, slots=True)
class PeakReport:
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a replay can be trusted, and why not: stable names (see docs/numbers.md).

    `exact`: what is shown is exact, though more may have happened (events that a ring buffer lost).
    """

    trusted: bool
    exact: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Blocks of one state (`active_allocated`, `active_pending_free`, `inactive`, …) in the
    segments.

    `size_bytes` are block sizes (rounded), `requested_bytes` what was asked for (0 for inactive).
    """

    state: str
    blocks: int
    size_bytes: int
    requested_bytes: int


@dataclass(frozen=True, slots=True)
class MeasureSummary:
    """One measure of one device over its events.

    `event_index` is the first event after which the peak is reached, `time_us` its time.
    `mean_bytes` is weighted by time; None where there are no times. `reconciliation_bytes` is
    `final_bytes` less what the segments in the file hold by this measure; None when a range was
    read that ends before the trace does.
    """

    measure: MeasureName
    exactness: Exactness
    reasons: tuple[str, ...]
    start_bytes: int
    peak_bytes: int
    event_index: int
    time_us: int | None
    minimum_bytes: int
    mean_bytes: int | None
    final_bytes: int
    reconciliation_bytes: int | None


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One device of a snapshot: what is there, and whether a replay of it can be trusted.

    `reserved_bytes`, `active_bytes` and `requested_bytes` are the final segments' (sum of segment
    sizes; of active blocks' sizes; of active blocks' requested sizes). `final_bytes` is the
    replay's own end, and `reconciliation_bytes` is `final_bytes - requested_bytes`: 0 when trace
    and segments agree, None when a range was read that ends before the trace does. `events` counts
    those of the range, from `first_event` on, `trace_events` all. `reasons` are stable names (see
    docs/numbers.md), empty when `trusted` with nothing to add. `blocks_proven` are allocations
    whose block's size follows from addresses, `blocks_assumed` those for which the rounded request
    is taken. `pools` and `streams` count those that anything was allocated or reserved in.
    """

    device: int
    first_event: int
    events: int
    trace_events: int
    actions: dict[str, int]
    first_us: int | None
    last_us: int | None
    events_with_stack: int
    segments: int
    reserved_bytes: int
    active_bytes: int
    requested_bytes: int
    states: tuple[StateBytes, ...]
    baseline_bytes: int
    peak_bytes: int
    final_bytes: int
    unmatched_frees: int
    double_allocs: int
    unknown_actions: int
    reconciliation_bytes: int | None
    measures: tuple[MeasureSummary, ...]
    pools: int
    streams: int
    blocks_proven: int
    blocks_assumed: int
    pending_frees: int
    synthetic_events: int
    trusted: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """What `memreplay summary` shows of one file.

    `container` is how the bytes were wrapped ("pickle", "gzip", "xz", "gzip in
    zip", …); `protocol` the pickle
    protocol, -1 for JSON; `generation` a short text for people: which PyTorch wrote it, judged by
    the keys. `file_bytes` is the size on disk (None for a stream), `stream_bytes` the decompressed
    size. `settings` holds the whole allocator settings; `settings_changed` those that differ from
    PyTorch's defaults.
    """

    file: str
    file_bytes: int | None
    stream_bytes: int
    container: str
    protocol: int
    generation: str
    has_times: bool
    has_stacks: bool
    annotations: int
    stacks: int
    frames: int
    overflowed: bool | None
    settings: dict[str, object]
    settings_changed: dict[str, object]
    devices: tuple[DeviceSummary, ...] = field(default=())
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A bound of a range: an event's index in its trace, microseconds after the trace's first event
    ("elapsed"), or microseconds since the epoch ("time").
    """

    kind: Literal["event", "elapsed", "time"]
    value: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may ask for before reading it ends in LimitError, whatever its size.

    `nesting_depth`: containers open at once. `string_bytes`: of one string or bytes object, and of
    the window that holds it. `stack_values`: values that wait for their container's end.
    `memo_entries`: entries of the pickle memo. `kept_values`: items of the settings and of metadata
    that is no text. `rows`: of one kind (events, segments, blocks, annotations, frame dicts and
    frames lists); never more than the default. `devices`: traces; the devices of segments count
    from 0 to below it. `decompression_ratio`: plain bytes out of one compressed byte, where more
    than 64 MiB came out (real snapshots: 16 to 17).
    """

    nesting_depth: int = 1_000
    string_bytes: int = 64 << 20
    stack_values: int = 1 << 23
    memo_entries: int = 1 << 30
    kept_values: int = 1 << 22
    rows: int = 1 << 27
    devices: int = 1_024
    decompression_ratio: int = 250


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """One row an allocation: those of the trace in order, then the baseline's blocks.

    `alloc_event` (i64) is -1 for the baseline, `free_event` (i64) -1 for what is never freed;
    `address` (u64), `size` (i64, requested bytes), `stack` (u32, stack ids).
    """

    alloc_event: NDArray[np.int64]
    free_event: NDArray[np.int64]
    address: NDArray[np.uint64]
    size: NDArray[np.int64]
    stack: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True, slots=True, eq=False)
class LiveSet:
    """What is allocated at one moment, a row an allocation; columns as in Lifetimes.

    `event_index` is the last event that counts, -1 for the start; `bytes` is the sum of `size`.
    """

    device: int
    event_index: int
    bytes: int
    alloc_event: NDArray[np.int64]
    address: NDArray[np.uint64]
    size: NDArray[np.int64]
    stack: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentChanges:
    """The segment events of one device, a row each, in the order of the trace.

    `event` (i64, index), `action` (u8, codes for `Snapshot.action_name`), `address` (u64), `bytes`
    (i64, above 0 where memory was reserved, below where it was given back), `reserved` (i64, bytes
    reserved afterwards), `time_us` (i64, the smallest int64 where there is none), `stream` (u64),
    `pool` (u32, ids for `Snapshot.pool_id`), `stack` (u32, who asked).
    """

    event: NDArray[np.int64]
    action: NDArray[np.uint8]
    address: NDArray[np.uint64]
    bytes: NDArray[np.int64]
    reserved: NDArray[np.int64]
    time_us: NDArray[np.int64]
    stream: NDArray[np.uint64]
    pool: NDArray[np.uint32]
    stack: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, slots=True)
class SegmentChange:
    """One segment event, for people: `place` is the frame that its stack is put down to.

    `is_user` says whether that is the user's own code; `frames` is the whole stack, innermost
    first.
    """

    event_index: int
    time_us: int | None
    action: str
    address: int
    bytes: int
    reserved_bytes: int
    stream: int
    pool: tuple[int, int] | None
    place: Frame | None
    is_user: bool
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class DeviceSegments:
    """The segments of one device over time.

    `start_segments` counts segments, and mapped ranges without holes of expandable ones, before the
    first event. `actions` counts events by action. `largest` are the largest changes, in the order
    of the trace; `changes` are all of them, in columns.
    """

    device: int
    first_event: int
    events: int
    start_us: int | None
    start_segments: int
    start_bytes: int
    peak_bytes: int
    event_index: int
    final_bytes: int
    actions: dict[str, int]
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    largest: tuple[SegmentChange, ...]
    changes: SegmentChanges


@dataclass(frozen=True, slots=True)
class SegmentsReport:
    """What `memreplay segments` shows. `pools` spells the pool ids of the changes' columns."""

    file: str
    truncated: bool
    pools: dict[int, tuple[int, int]]
    actions: dict[int, str]
    devices: tuple[DeviceSegments, ...]


@dataclass(frozen=True, slots=True)
class PeakPoint:
    """Where usage is highest: `bytes`, and the first event after which it is so (-1: the start)."""

    bytes: int
    event_index: int
    time_us: int | None
