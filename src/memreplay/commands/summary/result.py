"""The results of `memreplay summary`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.trust.ring import Sign
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend
from memreplay.snapshot.record import Record

Overflow = Literal["yes", "likely", "no", "unknown"]


class StateBytes(Record, frozen=True):
    """The blocks of one state in the final segments."""

    state: str
    """`active_allocated`, `active_pending_free`, `inactive` …"""
    blocks: int
    """How many."""
    size_bytes: int
    """Their sizes, **rounded** as the allocator does."""
    requested_bytes: int
    """What was asked for; 0 for inactive blocks."""


class MeasureSummary(Record, frozen=True, kw_only=True):
    """One measure of one device over the events that were read."""

    measure: MeasureName
    exactness: Exactness
    reasons: tuple[str, ...]
    """What the measure itself has against it; those of the device are of everything."""
    start_bytes: int
    """Before the first event."""
    peak_bytes: int
    """The highest."""
    event_index: int
    """The first event after which it is reached."""
    time_us: int | None
    """That event's time."""
    minimum_bytes: int
    """The lowest."""
    mean_bytes: int | None
    """The mean, weighted by time; null if there are no times."""
    end_bytes: int
    """After the last event."""
    reconciliation_bytes: int | None
    """`end_bytes` less what the final segments hold by this measure; null if `--to` ends before
    the trace does."""


class DeviceSummary(OfBackend, frozen=True, kw_only=True):
    """One device of a snapshot: what is there, and whether a replay of it can be trusted."""

    device: int
    first_event: int
    events: int
    """How many events were read; all numbers of events and usage are of these."""
    trace_events: int
    actions: dict[str, int]
    """Events by action."""
    unknown_actions: int
    """Events of actions that memreplay does not know."""
    first_us: int | None
    """The time of the first event."""
    last_us: int | None
    """The time of the last event."""
    events_with_stack: int
    """Events that have a stack."""
    segments: int
    """Segments at the end: of the dump, whatever the range."""
    reserved_bytes: int
    """Their sizes."""
    active_bytes: int
    """The sizes of the active blocks in them, **rounded** as the allocator does."""
    requested_bytes: int
    """What was asked for in these blocks."""
    states: tuple[StateBytes, ...]
    """The blocks in them by state."""
    carried_over_bytes: int
    """Requested bytes that were live before the first event."""
    peak_bytes: int
    """The highest requested usage."""
    end_bytes: int
    """Requested usage after the last event."""
    unmatched_frees: int
    """Frees of what was not live."""
    double_allocs: int
    """Allocations of what was live."""
    reconciliation_bytes: int | None
    """`end_bytes` less `requested_bytes`: 0 if trace and segments agree; null if `--to` ends
    before the trace does."""
    measures: tuple[MeasureSummary, ...]
    """Each measure."""
    pools: int
    """How many pools are known."""
    streams: int
    """How many streams are known."""
    blocks_proven: int
    """Allocations whose block's size follows from addresses."""
    blocks_assumed: int
    """Allocations for which the rounded request stands in."""
    pending_frees: int
    """Frees that were requested and had not completed at the end."""
    synthetic_events: int
    """Frees and allocations by which a CUDA graph tree set a pool back."""
    overflow: Overflow
    """Whether the recorder's ring buffer dropped the oldest events; `unknown` if neither the file
    nor the events say so."""
    overflow_signs: tuple[Sign, ...]
    """What makes an overflow [likely](numbers.md#a-ring-buffer-that-overflowed)."""
    dropped_events: int
    """How many events were dropped, at least, as memreplay's recorder counted them."""
    trusted: bool
    """Whether nothing speaks against a replay, in any measure."""
    reasons: tuple[str, ...]


class RecordedRun(Record, frozen=True, kw_only=True):
    """What memreplay's recorder noted of the run, as it stands in the file."""

    by: str
    """`record`, `dryrun` or `estimate`."""
    torch: str | None
    """The version of torch."""
    python: str | None
    """The version of Python."""
    host: str | None
    """The machine's name."""
    cards: tuple[str, ...]
    """The names of the cards that the process saw."""
    rank: int | None
    """Its rank; null if it was no distributed run."""
    world_size: int | None
    """How many ranks there were."""
    categories: bool
    """Whether categories, phases and modules of allocations were noted, and fit the events."""


class SnapshotSummary(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.summary/1"
):
    """What `memreplay summary` found in one file."""

    file: str
    file_bytes: int | None
    """Its size on disk; null for a stream."""
    stream_bytes: int
    """Its size after decompression."""
    container: str
    """How the bytes are wrapped, from the inside: `pickle` for not at all (JSON too), `gzip`,
    `zstd`, `xz`, `bzip2`, `zip`; two layers as `gzip in zip`; `parquet` or `arrow` for the tables
    of `memreplay export`."""
    protocol: int
    """The pickle protocol; -1 for JSON."""
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    generation: str
    """Which PyTorch wrote it, by the keys: for people, may change in wording."""
    recorded: RecordedRun | None = None
    """What memreplay's recorder noted of the run; null if it did not record."""
    has_times: bool
    """Whether events that were read have times."""
    has_stacks: bool
    """Whether anything has call stacks, blocks too."""
    annotations: int
    """Annotations outside the traces."""
    stacks: int
    """Distinct stacks."""
    frames: int
    """Distinct frames."""
    overflowed: bool | None
    """Whether the recorder's ring buffer overflowed."""
    settings: dict[str, Any]
    """The allocator's settings as they are in the file. What JSON cannot say becomes null (NaN), a
    hexadecimal string (integers past 64 bits) or its type's name (`"<bytes>"`); past eight levels
    of nesting it becomes `"..."`."""
    settings_changed: dict[str, Any]
    """Those that differ from PyTorch's defaults."""
    devices: tuple[DeviceSummary, ...] = ()

    def document(self) -> Document:
        from memreplay.commands.summary.text import summary_document

        return summary_document(self)
