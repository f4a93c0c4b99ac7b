"""The result of `memreplay summary`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.trust.ring import Sign
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_memory import CardUse, HostUse
from memreplay.snapshot.recorded_run import RecordedRun

Overflow = Literal["yes", "likely", "no", "unknown"]


class StateBytes(Record, frozen=True):
    """Blocks of one state in the final segments."""

    state: str
    """`active_allocated`, `active_pending_free`, `inactive` …"""
    block_count: int
    """Number of blocks."""
    size_bytes: int
    """Size of the blocks, as **rounded** by the allocator."""
    requested_bytes: int
    """Requested bytes; 0 for inactive blocks."""


class MeasureSummary(Record, frozen=True, kw_only=True):
    """One measure of one device in the events that were read."""

    measure: MeasureName
    exactness: Exactness
    reasons: tuple[str, ...]
    """Reasons that apply to this measure. The device's reasons apply to everything."""
    start_bytes: int | None
    """Usage before the first event. For reserved bytes, this and the following numbers are null if
    the file doesn't show reserved memory.
    """
    peak_bytes: int | None
    """The peak."""
    peak_event: int | None
    """The first event after which usage is at its peak."""
    peak_us: int | None
    """Time of that event."""
    lowest_bytes: int | None
    """The lowest usage."""
    mean_bytes: int | None
    """Mean usage over time; null without times."""
    end_bytes: int | None
    """Usage after the last event."""
    reconciliation_bytes: int | None
    """`end_bytes` minus this measure of the final segments; null if `--to` ends before the trace
    does.
    """


class DeviceSummary(OfBackend, frozen=True, kw_only=True):
    """One of a snapshot's devices: what the file contains, and whether a replay can be trusted."""

    device: int
    first_event: int
    events: int
    """Number of events that were read. All event counts and all usage refer to these events."""
    trace_events: int
    actions: dict[str, int]
    """Number of events by action."""
    unknown_actions: int
    """Number of events whose action memreplay doesn't know."""
    start_us: int | None
    """Time of the first event."""
    end_us: int | None
    """Time of the last event."""
    events_with_stack: int
    """Number of events with a stack."""
    segments: int
    """Number of segments when the file was dumped, regardless of the range."""
    reserved_bytes: int
    """Size of the segments."""
    active_bytes: int
    """Size of the segments' active blocks, as **rounded** by the allocator."""
    requested_bytes: int
    """Requested bytes of the active blocks."""
    states: tuple[StateBytes, ...]
    """The segments' blocks by state."""
    carried_over_bytes: int
    """Requested bytes live before the first event."""
    peak_bytes: int
    """Peak of requested bytes."""
    end_bytes: int
    """Requested bytes after the last event."""
    unmatched_frees: int
    """Number of frees of addresses without a live allocation."""
    double_allocs: int
    """Number of allocations at addresses that already had a live allocation."""
    reconciliation_bytes: int | None
    """`end_bytes` minus `requested_bytes`, which is 0 if the trace and the segments agree; null if
    `--to` ends before the trace does.
    """
    measures: tuple[MeasureSummary, ...]
    """One entry per measure."""
    pool_count: int
    """Number of known pools."""
    stream_count: int
    """Number of known streams."""
    blocks_proven: int
    """Number of allocations whose block size can be inferred from addresses."""
    blocks_assumed: int
    """Number of allocations whose block size is assumed to be the rounded request."""
    pending_frees: int
    """Number of frees that were requested but hadn't completed at the end."""
    synthetic_events: int
    """Number of frees and allocations that a CUDA graph tree recorded to reset a pool."""
    overflow: Overflow
    """Whether the recorder's ring buffer dropped the oldest events; `unknown` if neither the file
    nor the events show this.
    """
    overflow_signs: tuple[Sign, ...]
    """Signs of a [likely overflow](numbers.md#a-ring-buffer-that-overflowed) of the ring buffer."""
    dropped_events: int
    """Minimum number of dropped events, as counted by memreplay's recorder."""
    trusted: bool
    """Whether a replay can be trusted for every measure."""
    reasons: tuple[str, ...]


class SnapshotSummary(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.summary/1"
):
    """The result of `memreplay summary` for one file."""

    file: str
    file_bytes: int | None
    """Size on disk; null if the file was read from a stream."""
    stream_bytes: int
    """Size after decompression."""
    container: str
    """The file's compression or archive, innermost first: `gzip`, `zstd`, `xz`, `bzip2`, `zip`, or
    for two layers `gzip in zip`; `pickle` if there is none (also for JSON); `parquet` or `arrow`
    for tables of `memreplay export`.
    """
    protocol: int
    """Pickle protocol; -1 for JSON."""
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    generation: str
    """The PyTorch versions that write such files, inferred from the keys. For display: the wording
    may change.
    """
    recorded: RecordedRun | None = None
    """Notes by memreplay's recorder on the run; null if another recorder wrote the file."""
    card_memory: tuple[CardUse, ...] = ()
    """How much of each card this process and others used; empty if that wasn't recorded."""
    host_memory: HostUse | None = None
    """The process's host memory; null if that wasn't recorded."""
    has_times: bool
    """Whether the events that were read have times."""
    has_stacks: bool
    """Whether any event, block or segment has a call stack."""
    annotation_count: int
    """Number of annotations outside the traces."""
    stack_count: int
    """Number of distinct stacks."""
    frame_count: int
    """Number of distinct frames."""
    overflowed: bool | None
    """Whether the ring buffer overflowed."""
    allocator_settings: dict[str, Any]
    """The allocator's settings in the file. Values that JSON can't express become null (NaN), a
    hexadecimal string (integers beyond 64 bits) or the type's name (`"<bytes>"`). More than eight
    levels of nesting become `"..."`."""
    settings_changed: dict[str, Any]
    """Allocator settings that differ from PyTorch's defaults."""
    devices: tuple[DeviceSummary, ...] = ()

    def document(self) -> Document:
        from memreplay.commands.summary.text import summary_document

        return summary_document(self)
