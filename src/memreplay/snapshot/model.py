"""The results of memreplay as frozen records: plain data, no behaviour, no I/O.

Units everywhere: bytes are int and named `*_bytes`; times are int microseconds since the epoch and
named `*_us`; an event is named by (device, index in that device's trace), and index -1 is the
start, before the first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from memreplay.snapshot.backends import CUDA
from memreplay.snapshot.brief import html_columns
from memreplay.snapshot.record import Arrays, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray


class OfBackend(Record, frozen=True, kw_only=True):
    """Base of a part of a report that gives hints, which name the backend's module of torch."""

    text_only = ("backend",)

    backend: str = CUDA.name
    """Whose allocator it was, as `snapshot.backends` calls it."""


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
"""Why what was simulated is an estimate."""

By = str  # one way to group, or several, joined by commas
AllocationsSort = Literal["bytes", "count", "temporary", "mean-lifetime"]
Exactness = Literal["exact", "estimated"]
MeasureName = Literal["requested", "held", "active", "allocated", "reserved"]
MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated", "reserved")


class Frame(Record, frozen=True, eq=False):
    """One frame of a call stack. Frames are the same if they name the same line, whatever it says:
    of two snapshots one may have no source."""

    function: str
    """The function's name; empty where frames stand for files."""
    file: str
    """The source file; empty where frames stand for functions."""
    line: int
    """The line; 0 if it is not known (C++ frames)."""
    source: str | UnsetType = UNSET
    """The text of this line, if the recording has it (`memreplay record --source`): without the
    white space around it, at most 200 characters."""

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
    """What a group is called; `frames`, `user`, `libraries` and `note` as in Group."""

    text: str
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()
    libraries: tuple[int, ...] = ()
    note: str = ""


class Coded(Record, frozen=True, kw_only=True):
    """What has a stack. Its fields come after those of the records that are made of it."""

    text_only: ClassVar[tuple[str, ...]] = ("of", "note")

    label: str
    """A short name for people: the innermost frame of the user's code and the operator that it
    called, or else what ran; in parentheses if there is no stack. Its wording may change."""
    user: tuple[int, ...] = ()
    """Which of `frames`, by index, are the user's own code, innermost first: not of installed
    libraries, nor the plumbing of PyTorch, Python or C++. If a stack has no such frames, those of
    libraries."""
    libraries: tuple[int, ...] = ()
    """Which of `frames`, by index, are those of installed libraries, innermost first, if there are
    frames of the user's too."""
    frames: tuple[Frame, ...] = ()
    """Innermost first: the whole stack by `stack`; the one frame by `line` or `innermost`; one
    without function and line by `file`, one without file and line by `function`; none by ways that
    are no code, and if there is no stack. By several ways at once they are those of the last way
    that has any."""
    of: tuple[Label, ...] = ()
    """What each of several ways calls it."""
    note: str = ""
    """More words behind the label, for people: how to learn more of it."""


class Group(Coded, frozen=True):
    """Allocations that share a call stack, or what else was asked for, and are live at a moment."""

    bytes: int
    """The bytes that they hold."""
    count: int
    """How many allocations."""
    share: float
    """`bytes` as a share of the whole, 0.0 to 1.0."""


class Part(Record, frozen=True, kw_only=True):
    """One pool or stream at a moment of its device. All of them are there: their `bytes` and
    `count` add up to the device's."""

    pool: tuple[int, int] | UnsetType | None = UNSET
    """A pool's id: `[0, 0]` is the default, the first number is not 0 for a CUDA graph's, the
    second for one of the program's own (a MemPool, graph_pool_handle()); null if not known."""
    stream: int | UnsetType | None = UNSET
    """In `streams`, instead of `pool`."""
    bytes: int
    """What it holds then."""
    count: int
    """In how many allocations; 0 for reserved bytes."""
    start_bytes: int
    """What it holds before the first event."""
    peak_bytes: int
    """The most that it ever holds."""
    event_index: int
    """The first event after which it does."""
    end_bytes: int
    """What it holds after the last event."""
    reserved_bytes: int
    """What is reserved for it then."""
    reserved_peak_bytes: int
    """The most that is ever reserved for it."""
    reserved_peak_event: int
    """The first event after which it is."""
    reserved_end_bytes: int
    """What is reserved for it after the last event."""


class Parted:
    """What may be split into pools or streams."""

    __slots__ = ()
    pools: tuple[Part, ...] | UnsetType
    streams: tuple[Part, ...] | UnsetType

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pools or the streams, whichever there are."""
        return self.pools or self.streams or ()


class Verdict(Record, frozen=True):
    """Whether a replay can be trusted, and why not: stable names (see docs/numbers.md)."""

    trusted: bool
    exactness: Exactness
    reasons: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether what is shown is exact, though more may have happened (events that a ring buffer
        lost)."""
        return self.exactness == "exact"


def joined(verdicts: Sequence[Verdict], *, exact: bool, reasons: Iterable[str] = ()) -> Verdict:
    """One verdict on what needs all of these: `reasons` come after theirs, each once."""
    every = [*(reason for one in verdicts for reason in one.reasons), *reasons]
    return Verdict(
        trusted=all(one.trusted for one in verdicts),
        exactness="exact" if exact else "estimated",
        reasons=tuple(dict.fromkeys(every)),
    )


MomentKind = Literal["event", "elapsed", "time"]


class Moment(Record, frozen=True):
    """A bound of a range: an event's index in its trace, microseconds after the trace's first event
    ("elapsed"), or microseconds since the epoch ("time").
    """

    kind: MomentKind
    """What the value counts."""
    value: Annotated[int, Meta(ge=1 - 2**62, lt=2**62)]
    """The event's index, or the microseconds."""


class EventRange(Record, frozen=True):
    """Which events are read."""

    start: Moment | None = None
    """The first of them; null for no bound."""
    stop: Moment | None = None
    """The first that is not read any more; null for no bound."""

    def differs(self, other: EventRange) -> bool:
        """Whether other events are meant. Points in time are of one recording each, and are taken
        for the same."""
        return any(
            mine != theirs
            and (mine is None or theirs is None or not mine.kind == theirs.kind == "time")
            for mine, theirs in ((self.start, other.start), (self.stop, other.stop))
        )


Edge = Literal["start", "end", "peak"]


class When(Record, frozen=True):
    """The moment that a question is about."""

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
    """`event`: after the event `value` (-1: the start). `elapsed` and `time`: after the events up
    to `value` microseconds, since the device's first event or since 1970. `time_of_day`: so many
    since midnight (UTC), on the day on which the recording starts, or on the next one if only that
    has it. `peak`: the `value`-th highest separate peak of the measure, 1 the peak itself. `oom`:
    when the `value`-th request failed. `start`, `end`: before the first, after the last event.
    `step`: the `value`-th step, as `memreplay steps` finds them (-1 is the last).
    `annotation`: the first one called `name`, or, if none is called so, the k-th of
    NAME for a name of the form NAME#k (from 1; -1 is the last). `address`: after the first
    allocation with the address `value` in it, or the one of the number `name`, was made; a number
    that begins with `_` is the one that PyTorch's viewer shows."""
    value: int = 0
    """The event, the microseconds, the number of the peak, the failed request or the step, or the
    address; else 0."""
    name: str | None = None
    """Of an annotation; of an address the number that was given."""
    edge: Edge | None = None
    """Of an annotation or a step: where it begins or ends, or the peak between."""

    def __post_init__(self) -> None:
        if self.kind in ("annotation", "step") and self.edge is None:
            force_setattr(self, "edge", "start")


class Span(Record, frozen=True):
    """An annotation on one device, from its START to its END."""

    name: str
    """What it is called."""
    start_us: int
    """When it begins."""
    end_us: int | None
    """When it ends; null if the end is not in the file."""
    start_event: int
    """The last event before it begins."""
    end_event: int | None
    """The last event until it ends; null if the end is not in the file."""


class Buckets(Record, frozen=True):
    """A series over events cut into buckets of equally many events, or of equal times; a number a
    bucket each.

    `event_index` is a bucket's first event, and where it has none (`events` is 0, which only
    happens by time) the last one before it. `time_us` is when that event was, None where it has no
    time; by time, when the bucket begins. `min_bytes` and `max_bytes` are after its events, the
    first bucket's with the start; by time, with what the bucket begins with, too. `max_event` is
    the first event after which the maximum is reached.
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
    """One row an allocation: those of the trace in order, then the carried blocks."""

    alloc_event: NDArray[np.int64]
    """The event that made it; -1 for carried blocks."""
    free_event: NDArray[np.int64]
    """The event that ended it; -1 for what is never freed."""
    address: NDArray[np.uint64]
    """Where it is."""
    size: NDArray[np.int64]
    """Bytes, by the measure that was asked."""
    stack: NDArray[np.uint32]
    """Stack ids, for `Snapshot.stack`."""

    def __len__(self) -> int:
        return len(self.size)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class LiveSet(Record, Arrays, frozen=True, eq=False):
    """What is allocated at one moment, a row an allocation; columns as in Lifetimes."""

    device: int
    """The device's number."""
    event_index: int
    """The last event that counts; the event before the first for the start."""
    bytes: int
    """The sum of `size`."""
    alloc_event: NDArray[np.int64]
    """The event that made it; -1 for carried blocks."""
    address: NDArray[np.uint64]
    """Where it is."""
    size: NDArray[np.int64]
    """Bytes, by the measure that was asked."""
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


class PeakPoint(Record, frozen=True):
    """A moment when usage is highest."""

    bytes: int
    """How high it is."""
    event_index: int
    """The first event after which it is; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; null where it has none."""
