"""The results of memreplay as frozen dataclasses: plain data, no behaviour, no I/O.

Units everywhere: bytes are int and named `*_bytes`; times are int microseconds since the epoch and
named `*_us`; an event is named by (device, index in that device's trace), and index -1 is the
start, before the first event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from memreplay.snapshot.brief import Brief, html_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Way = Literal[
    "stack",
    "frame",
    "innermost",
    "function",
    "file",
    "directory",
    "module",
    "category",
    "annotation",
    "compile_context",
    "user_metadata",
    "stream",
    "pool",
    "size",
]
WAYS: tuple[Way, ...] = get_args(Way)
By = str  # one Way to group, or several, joined by commas
AllocationsSort = Literal["bytes", "count", "temporary", "mean-lifetime"]
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
class Label(Brief):
    """What a group is called; `frames`, `user` and `libraries` as in Group."""

    text: str
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()
    libraries: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Group(Brief):
    """Allocations that share a call stack (or frame, file, function), held at one moment.

    `frames` is innermost first: the whole stack when grouped by stack; the one frame when grouped
    by frame; a frame with an empty function and line 0 when grouped by file; with an empty file and
    line 0 when grouped by function; empty where there is no stack, and then `label` says why in
    parentheses. `user` indexes into `frames`: the frames that are the user's own code, not that of
    installed libraries, nor the plumbing of PyTorch, Python or C++; `libraries` those of installed
    libraries. A stack that has nothing but libraries has them in `user`. `label` is made of the
    innermost of `user` (else of the frame that says most). `share` is bytes / the whole, 0.0 to
    1.0. Grouped in several ways at once, `label` is of all, `frames`, `user` and `libraries` are of
    the last that has any, and `of` is what each of the ways calls it.
    """

    label: str
    bytes: int
    count: int
    share: float
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()
    of: tuple[Label, ...] = ()
    libraries: tuple[int, ...] = ()


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
class Verdict:
    """Whether a replay can be trusted, and why not: stable names (see docs/numbers.md).

    `exact`: what is shown is exact, though more may have happened (events that a ring buffer lost).
    """

    trusted: bool
    exact: bool
    reasons: tuple[str, ...]


MomentKind = Literal["event", "elapsed", "time"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A bound of a range: an event's index in its trace, microseconds after the trace's first event
    ("elapsed"), or microseconds since the epoch ("time").
    """

    kind: MomentKind
    value: int


@dataclass(frozen=True, slots=True)
class EventRange:
    """Which events are read: from `start` up to and not including `stop`; None is no bound."""

    start: Moment | None = None
    stop: Moment | None = None

    def differs(self, other: EventRange) -> bool:
        """Whether other events are meant. Points in time are of one recording each, and are taken
        for the same."""
        return any(
            mine != theirs
            and (mine is None or theirs is None or not mine.kind == theirs.kind == "time")
            for mine, theirs in ((self.start, other.start), (self.stop, other.stop))
        )


Edge = Literal["start", "end", "peak"]


@dataclass(frozen=True, slots=True)
class When:
    """The moment that a question is about.

    "event": after the event of index `value` (-1: the start). "elapsed" and "time": after the
    events up to `value` microseconds, since the device's first event or since the epoch. "peak":
    the `value`-th highest separate peak of the measure, 1 the peak itself. "start", "end": before
    the first, after the last event. "annotation": the first one called `name`, or, where none is
    called so, the k-th of NAME for a name of the form NAME#k (from 1; -1 is the last): where it
    begins or ends, or the peak between. "address": the first allocation with the address `value` in
    it, or the one of the number `name`: after it was made.
    """

    kind: Literal["event", "elapsed", "time", "annotation", "peak", "start", "end", "address"]
    value: int = 0
    name: str = ""
    edge: Edge = "start"


@dataclass(frozen=True, slots=True)
class Span:
    """An annotation on one device, from its START to its END.

    `start_event` is the last event before it begins, `end_event` the last event until it ends: what
    happened in it are the events after the one up to the other. The end is None where it is not in
    the file.
    """

    name: str
    start_us: int
    end_us: int | None
    start_event: int
    end_event: int | None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which allocations alone count.

    `include` and `exclude` are regular expressions that are searched in `file:function`,
    `file:line` and `function file:line` of a stack's frames: any of the first must be found, none
    of the others. A place as a report shows it, cut short or not, is found as well. `min_bytes`
    are those of the measure; `live_at_end` asks for what is never let go of, `baseline` for what
    was there before the first event, `no_baseline` for what was not.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    min_bytes: int = 0
    live_at_end: bool = False
    baseline: bool = False
    no_baseline: bool = False

    def __bool__(self) -> bool:
        return self != Filters()


@dataclass(frozen=True, slots=True)
class Buckets(Brief):
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


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes(Brief):
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
class LiveSet(Brief):
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

    def _repr_html_(self) -> str:
        return html_columns(
            f"{self.bytes:,} bytes live on device {self.device} after event {self.event_index:,}",
            ("alloc_event", "address", "size", "stack"),
            (self.alloc_event, self.address, self.size, self.stack),
            len(self),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SegmentChanges(Brief):
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
class PeakPoint:
    """Where usage is highest: `bytes`, and the first event after which it is so (-1: the start)."""

    bytes: int
    event_index: int
    time_us: int | None
