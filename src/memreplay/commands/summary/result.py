"""The results of `memreplay summary`."""

from __future__ import annotations

from memreplay.snapshot.model import Exactness, MeasureName
from memreplay.snapshot.record import Record


class StateBytes(Record, frozen=True):
    """Blocks of one state (`active_allocated`, `active_pending_free`, `inactive`, …) in the
    segments.

    `size_bytes` are block sizes (rounded), `requested_bytes` what was asked for (0 for inactive).
    """

    state: str
    blocks: int
    size_bytes: int
    requested_bytes: int


class MeasureSummary(Record, frozen=True):
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


class DeviceSummary(Record, frozen=True):
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


class SnapshotSummary(Record, frozen=True):
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
    devices: tuple[DeviceSummary, ...] = ()
    truncated: bool = False
