"""memreplay's results as frozen records: plain data, no behaviour, no I/O.

Units: bytes are int and named `*_bytes`; times are int microseconds since the epoch and named
`*_us`; an event is identified by (device, index in that device's trace); index -1 is the start,
before the first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from memreplay.snapshot.backends import CUDA
from memreplay.snapshot.brief import html_columns
from memreplay.snapshot.record import Arrays, Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memreplay.engine.query._vectors import Vector


class OfBackend(Record, frozen=True, kw_only=True):
    """Base class for those parts of a report whose hints name the backend's torch module."""

    text_only = ("backend",)

    backend: str = CUDA.name
    """The allocator's backend, as named in `snapshot.backends`."""


SimulationReason = Literal[
    "began_with_memory",
    "came_back_late",
    "card_inferred",
    "failures_unchanged",
    "limit_inferred",
    "not_reproduced",
    "placed_by_address",
    "request_succeeds",
    "start_too_large",
    "start_unplaced",
    "streams_waited",
    "total_inferred",
]
SIMULATION_REASONS: frozenset[SimulationReason] = frozenset(get_args(SimulationReason))
"""Reasons for a simulated number to be an estimate."""

By = str  # one grouping key, or several separated by commas
AllocationsSort = Literal["bytes", "count", "temporary", "mean-lifetime"]
Exactness = Literal["exact", "estimated"]
MeasureName = Literal["requested", "held", "active", "allocated", "reserved"]
MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated", "reserved")


class Frame(Record, frozen=True, eq=False):
    """One frame of a call stack.

    Frames are compared by function, file and line, but not by source text, because only one of two
    snapshots may have it.
    """

    function: str
    """The function's name; empty if the frame stands for a file."""
    file: str
    """The source file; empty if the frame stands for a function."""
    line: int
    """The line; 0 if unknown (C++ frames)."""
    source: str | UnsetType = UNSET
    """The line's text, stripped and at most 200 characters long, if it was recorded (`memreplay
    record --source`).
    """

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Frame:
            return NotImplemented
        return (
            self.line == other.line and self.function == other.function and self.file == other.file
        )

    def __hash__(self) -> int:
        return hash((self.function, self.file, self.line))


class Label(Record, frozen=True):
    """A group's name; `frames`, `user`, `libraries` and `note` are as in Group."""

    text: str
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()
    libraries: tuple[int, ...] = ()
    note: str = ""


class Coded(Record, frozen=True, kw_only=True):
    """Base class for records with a call stack. Its fields come after those of its subclasses."""

    text_only: ClassVar[tuple[str, ...]] = ("of", "note")

    label: str
    """A short name for people: the innermost frame in the user's code and the operator that it
    called, or else whatever ran. In parentheses if there is no stack. The wording may change.
    """
    user: tuple[int, ...] = ()
    """Indices into `frames` of the user's own code, innermost first. Excludes installed libraries
    and PyTorch's, Python's and C++ plumbing. If a stack has no frames of the user's, these are its
    library frames.
    """
    libraries: tuple[int, ...] = ()
    """Indices into `frames` of installed libraries, innermost first, if there are also frames in
    the user's code.
    """
    frames: tuple[Frame, ...] = ()
    """Innermost first. If grouped by `stack`, the whole stack; by `line` or `innermost`, one frame;
    by `file`, one without function and line; by `function`, one without file and line. Empty for
    keys that aren't code, or if there is no stack. With several keys, these are the frames of the
    last key that has any.
    """
    of: tuple[Label, ...] = ()
    """If there are several keys, the group's value for each of them."""
    note: str = ""
    """Extra text after the label that tells people how to learn more."""


class Group(Coded, frozen=True):
    """Allocations live at a moment that share a call stack or another `--by` key."""

    bytes: int
    """The group's bytes."""
    count: int
    """Number of allocations."""
    share: float
    """`bytes` as a fraction of the total, 0.0 to 1.0."""


class Part(Record, frozen=True, kw_only=True):
    """One pool or stream at a moment.

    All pools or streams are listed, so `bytes` and `count` add up to the device's totals.
    """

    pool: tuple[int, int] | UnsetType | None = UNSET
    """The pool's id. `[0, 0]` is the default pool. The first number is nonzero for a CUDA graph's
    pool, the second for a pool that the program created (a MemPool, graph_pool_handle()). Null if
    unknown.
    """
    stream: int | UnsetType | None = UNSET
    """The stream. In `streams`, this replaces `pool`."""
    bytes: int
    """Bytes at the moment."""
    count: int
    """Number of allocations; 0 for reserved bytes."""
    start_bytes: int
    """Bytes before the first event."""
    peak_bytes: int
    """The peak of the pool or stream itself."""
    peak_event: int
    """The first event after which this peak is reached."""
    end_bytes: int
    """Bytes after the last event."""
    reserved_bytes: int
    """Bytes reserved for the pool or stream at the moment."""
    reserved_peak_bytes: int
    """Peak of the bytes reserved for the pool or stream."""
    reserved_peak_event: int
    """The first event after which this reserved peak is reached."""
    reserved_end_bytes: int
    """Bytes reserved for the pool or stream after the last event."""


class Parted:
    """Base class for results that may be split into pools or streams."""

    __slots__ = ()
    pools: tuple[Part, ...] | UnsetType
    streams: tuple[Part, ...] | UnsetType

    @property
    def parts(self) -> tuple[Part, ...]:
        """The result's pools or streams, depending on which it has."""
        return self.pools or self.streams or ()


class Verdict(Record, frozen=True):
    """Whether a replay is trustworthy, and if not, the reasons. A reason is a stable name (see
    docs/numbers.md).
    """

    trusted: bool
    exactness: Exactness
    reasons: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether the numbers are exact, even if events are missing because the ring buffer
        overwrote them.
        """
        return self.exactness == "exact"


MomentKind = Literal["event", "elapsed", "time"]


class Moment(Record, frozen=True):
    """A bound of a range.

    It's given as an event's index in its trace, as microseconds after the trace's first event
    ("elapsed"), or as microseconds since the epoch ("time").
    """

    kind: MomentKind
    """The unit of the value."""
    value: Annotated[int, Meta(ge=1 - 2**62, lt=2**62)]
    """Event index, or microseconds."""


class EventRange(Record, frozen=True):
    """A range of events."""

    start: Moment | None = None
    """The first event in the range; null if unbounded."""
    stop: Moment | None = None
    """The first event after the range; null if unbounded."""

    def differs(self, other: EventRange) -> bool:
        """Whether another range selects different events.

        Absolute times only make sense within one recording, so they count as equal.
        """
        return any(
            mine != theirs
            and (mine is None or theirs is None or not mine.kind == theirs.kind == "time")
            for mine, theirs in ((self.start, other.start), (self.stop, other.stop))
        )


Edge = Literal["start", "end", "peak"]


class When(Record, frozen=True):
    """A moment to look at."""

    kind: Literal[
        "event",
        "elapsed",
        "time",
        "time_of_day",
        "annotation",
        "step",
        "peak",
        "oom",
        "start",
        "end",
        "address",
    ]
    """`event`: after the event `value` (-1: the start). `elapsed` and `time`: after all events up
    to `value` microseconds since the device's first event, or since 1970. `time_of_day`: the same
    since midnight (UTC) on the day the recording starts, or on the next day if only that day has
    this time. `peak`: the `value`-th highest separate peak of the measure; 1 is the peak. `oom`:
    when the `value`-th failed request occurred. `start`, `end`: before the first and after the last
    event. `step`: the `value`-th step, as `memreplay steps` finds them (-1 is the last).
    `annotation`: the first annotation called `name`; if there is none, NAME#k means the k-th one
    called NAME (from 1; -1 is the last). `address`: after the first allocation that contains the
    address `value`, or after the allocation numbered `name`. A number that begins with `_` is one
    from PyTorch's viewer.
    """
    value: int = 0
    """The event, microseconds, address, or number of the peak, failed request or step; 0 for other
    kinds.
    """
    name: str | None = None
    """The annotation's name; for an address, the number that was given."""
    edge: Edge | None = None
    """For an annotation or a step: which moment in it, i.e. its beginning, end or peak."""

    def __post_init__(self) -> None:
        if self.kind in ("annotation", "step") and self.edge is None:
            force_setattr(self, "edge", "start")


class Span(Record, frozen=True):
    """One device's annotation, from its START to its END."""

    name: str
    """Name of the annotation."""
    start_us: int
    """Time at which the annotation starts."""
    end_us: int | None
    """Time at which the annotation ends; null if the end isn't in the file."""
    start_event: int
    """The last event before the start."""
    end_event: int | None
    """The last event up to the end; null if the end isn't in the file."""


class Buckets(Record, frozen=True):
    """A series over events, cut into buckets with equal numbers of events or equal durations.

    The fields are lists with one item per bucket. `event_index` is a bucket's first event; if the
    bucket is empty (`events` is 0, only possible by time), the last event before it. `time_us` is
    that event's time (None if unknown), or by time, the bucket's start. `min_bytes` and `max_bytes`
    cover the values after the bucket's events; the first bucket includes the start, and by time,
    each includes the value with which it begins. `max_event` is the first event after which the
    maximum is reached.
    """

    event_index: list[int]
    events: list[int]
    time_us: list[int | None]
    min_bytes: list[int]
    max_bytes: list[int]
    max_event: list[int]

    def __len__(self) -> int:
        return len(self.event_index)


class Lifetimes(Record, Arrays, frozen=True, eq=False):
    """One row per allocation: the trace's allocations in order, then carried-over blocks."""

    alloc_event: NDArray[np.int64]
    """Event that allocated it; -1 for carried-over blocks."""
    free_event: NDArray[np.int64]
    """Event that freed it; -1 if never freed."""
    address: NDArray[np.uint64]
    """Start address."""
    size: NDArray[np.int64]
    """Bytes, by the selected measure."""
    stack: NDArray[np.uint32]
    """Stack ids, for `Snapshot.stack`."""

    def __len__(self) -> int:
        return len(self.size)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class LiveSet(Record, Arrays, frozen=True, eq=False):
    """The live set at a moment, one row per allocation; columns as in Lifetimes."""

    device: int
    """Device number."""
    event_index: int
    """The last event that is included; for the start, the index before the first event."""
    bytes: int
    """Sum of `size`."""
    alloc_event: NDArray[np.int64]
    """Event that allocated it; -1 for carried-over blocks."""
    address: NDArray[np.uint64]
    """Start address."""
    size: NDArray[np.int64]
    """Bytes, by the selected measure."""
    stack: NDArray[np.uint32]
    """Stack ids, for `Snapshot.stack`."""

    def __len__(self) -> int:
        return len(self.size)

    def _repr_html_(self) -> str:
        return html_columns(
            f"{self.bytes:,} bytes live on device {self.device} after event {self.event_index:,}",
            self.columns,
            tuple(self._arrays().values()),
            len(self),
        )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        names = ("alloc_event", "address", "size", "stack")
        return {name: getattr(self, name) for name in names}


class SegmentChanges(Record, frozen=True, eq=False):
    """One device's segment events, one row each, in trace order.

    `event` (index), `action` (codes for `Snapshot.action_name`), `bytes` (positive if reserved,
    negative if released), `reserved` (bytes reserved afterwards), `time_us` (the smallest int64 if
    unknown), `pool` (ids for `Snapshot.pool_id`).
    """

    event: Vector
    action: Vector
    address: Vector
    bytes: Vector
    reserved: Vector
    time_us: Vector
    stream: Vector
    pool: Vector
    stack: Vector

    def __len__(self) -> int:
        return len(self.event)


class PeakPoint(Record, frozen=True):
    """A point at which usage is highest."""

    bytes: int
    """The usage."""
    event_index: int
    """The first event after which usage is this high; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event; null if unknown."""
