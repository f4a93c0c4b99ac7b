"""One measure over a trace's events: its series, extremes and live sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

import memreplay._core as _core
from memreplay.errors import UsageError
from memreplay.snapshot.backends import CUDA
from memreplay.snapshot.model import Buckets, Lifetimes, LiveSet, MeasureName, Part, PeakPoint
from memreplay.snapshot.once import Once, once
from memreplay.snapshot.staying import Staying
from memreplay.snapshot.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memreplay.engine.query import _groups, _traffic
    from memreplay.engine.query._vectors import Vector
    from memreplay.engine.read.column import Column
    from memreplay.engine.replay import _measures, _timeline
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.backends import Backend

# Two peaks are separate if usage drops between them by at least this fraction of its overall range.
SEPARATION = 0.05


class Measured(Staying):
    """A measure's bytes over one device's events.

    Event indices are those of the whole trace; `Trace.start` is the state before it. Cached results
    (`__dict__`) are stored separately. A trace keeps its measures' results instead of the measures
    themselves, because a reference cycle would stay in memory until the garbage collector runs.
    """

    __slots__ = ("__dict__", "__weakref__", "trace")

    def __init__(
        self,
        trace: Trace,
        measure: MeasureName,
        pool: tuple[int, int] | None = None,
        stream: int | None = None,
    ) -> None:
        self.trace = trace
        self.measure = measure
        """The measure's name."""
        self.pool = pool
        """Count only this memory pool; None: all."""
        self.stream = stream
        """Count only this stream; None: all."""
        self._asked_before = False
        self._moments: Once[str, _timeline.Moments] = Once()
        self._sums: dict[str, list[tuple[int, int, int, int, int, int, int]]] = {}

    # ---- bytes over events

    @once
    def column(self) -> Column:
        """`series` as an engine column."""
        if self.measure == "reserved":
            return self._filtered_reserved[1] if self._filters else self.trace.reserved.usage()
        return self.native.usage()

    @once
    def series(self) -> NDArray[np.int64]:
        """Bytes after each event; shape (events,), int64, read-only."""
        import numpy as np

        return np.asarray(self.column)

    def release(self) -> None:
        """Release `column`, `series` and the index for live sets, which take 8 bytes per event.

        They are recomputed on access.
        """
        for one in ("column", "series"):
            self.__dict__.pop(one, None)
        self._moments.clear()

    @once
    def start_bytes(self) -> int:
        """Bytes before the first event read."""
        if self.measure == "reserved":
            return self._filtered_reserved[0] if self._filters else self.trace.reserved.start_bytes
        return self.native.start_bytes

    @once
    def end_bytes(self) -> int:
        """Bytes after the last event read."""
        if self._is_plain:
            return self.trace.native.final_bytes
        if self.measure != "reserved":
            return self.native.end_bytes
        return self._extremes[4] if self._filters else self.trace.reserved.end_bytes

    @once
    def peak(self) -> PeakPoint:
        """The maximum, and the first event after which it's reached."""
        if self._is_plain:
            return self._point(self.trace.native.peak_bytes, self.trace.native.peak_event)
        return self._point(*self._extremes[:2])

    @once
    def minimum(self) -> PeakPoint:
        """The minimum, and the first event after which it's reached."""
        return self._point(*self._extremes[2:4])

    @once
    def mean_bytes(self) -> int | None:
        """Time-weighted mean in bytes; None if there are no times."""
        mean = self._extremes[5]
        return None if mean is None else round(mean)

    def peaks(self, most: int) -> tuple[PeakPoint, ...]:
        """Return the highest separate maxima, highest first.

        Between two of them, usage falls by at least 5% of its range (maximum minus minimum).
        """
        from memreplay.engine.replay import _measures

        high, low = self._extremes[0], self._extremes[2]
        drop = int((high - low) * SEPARATION)
        found = _measures.maxima(self.column, self.start_bytes, drop, most)
        return tuple(self._point(*one) for one in found)

    def bytes_at(self, event: int) -> int:
        """Return the measure's bytes after an event, or at `Trace.start`.

        Raises UsageError for unknown events.
        """
        self.trace.check(event)
        at = event - self.trace.first_event
        if at < 0:
            return self.start_bytes
        value: int = memoryview(self.column)[at]
        return value

    def highest(self, first: int, last: int) -> PeakPoint:
        """Return the first maximum after the events `first` to `last` (`Trace.start`: the start).

        Raises UsageError for events that don't exist.
        """
        from memreplay.engine.replay import _measures

        self.trace.check(first)
        self.trace.check(last)
        base = self.trace.first_event
        found = self._point(self.start_bytes, -1) if first < base else None
        if last >= max(first, base):
            top = self._point(*_measures.highest(self.column, max(first, base) - base, last - base))
            found = top if found is None or top.bytes > found.bytes else found
        if found is None:
            raise UsageError(f"events {first} to {last} don't exist")
        return found

    def buckets(self, parts: int, *, by_time: bool = False) -> Buckets:
        """Cut the series into at most `parts` buckets, each with its minimum and maximum.

        The number of buckets is at least 1 and at most the number of events (or, by time, of
        microseconds). By time, raises UsageError if events have no times.
        """
        from memreplay.engine.replay import _measures

        trace = self.trace
        origin = whole = 0
        clock = None
        if by_time and trace.events:
            if trace.time_range is None:
                raise UsageError(f"device {trace.device} has no times; use --x event instead")
            origin, whole = trace.time_range[0], trace.time_range[1] - trace.time_range[0] + 1
            clock = trace.clock_column
            parts = parts if clock is not None else 1
        found = _measures.buckets(self.column, self.start_bytes, parts, clock, origin, whole)
        firsts, events, low, high, high_at = (memoryview(one).tolist() for one in found)
        base = trace.first_event
        times: list[int | None]
        if by_time and trace.events:
            times = [origin + whole * i // len(firsts) for i in range(len(firsts))]
        else:
            times = trace.times_us(firsts)
        return Buckets(
            event_index=[at + base for at in firsts],
            events=events,
            time_us=times,
            min_bytes=low,
            max_bytes=high,
            max_event=[at + base for at in high_at],
        )

    def ranges(self, bounds: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """Return three lists: each range's minimum, its maximum, and the first event with the
        maximum.

        A range goes from its bound up to the next; the last bound may be one past the last event. A
        range without events has the value after the previous event. Raises UsageError if there are
        no bounds, or if they decrease or aren't events.
        """
        from array import array

        from memreplay.engine.replay import _measures

        base, events = self.trace.first_event, self.trace.events
        try:
            at = array("q", [bound - base for bound in bounds])
            found = _measures.ranges(self.column, self.start_bytes, at)
        except (OverflowError, ValueError):
            raise UsageError(
                f"bounds must be ascending events from {base} to {base + events}"
            ) from None
        low, high, high_at = (memoryview(one).tolist() for one in found)
        return low, high, [event + base for event in high_at]

    def layers(
        self, keys: _groups.Keys, wanted: Sequence[int], samples: Sequence[int]
    ) -> list[list[int]]:
        """Return byte counts for each `wanted` group and for all others together, after each event
        in `samples`.

        `samples` are in ascending order.
        """
        base = self.trace.first_event
        found = keys.layers(self.native, wanted, [event - base for event in samples])
        return [memoryview(one).tolist() for one in found]

    def bests(self, keys: _groups.Keys, top: int) -> tuple[list[tuple[int, int, int, int]], int]:
        """Return ([(name, number, bytes, event)], number of groups) for the groups that ever hold
        memory.

        `bytes` is the most that the group ever holds, `event` the first event after which it holds
        that much. Largest first.
        """
        found, total = keys.bests(self.native, top)
        base = self.trace.first_event
        return [(name, number, n, event + base) for name, number, n, event in found], total

    def reserved_layers(
        self, by: str, wanted: Sequence[int], samples: Sequence[int]
    ) -> list[list[int]]:
        """Like `layers`, but for reserved memory by "pool" or "stream". The groups are numbers from
        `part_classes`.
        """
        from memreplay.engine.query import _layers

        base = self.trace.first_event
        at = [event - base for event in samples]
        found = _layers.reserved_layers(self.trace.classes(by), wanted, at, self._filters)
        return [memoryview(one).tolist() for one in found]

    def part_classes(self, by: str, parts: Sequence[Part]) -> list[int]:
        """Return the numbers that `reserved_layers` uses for pools or streams."""
        keys = self.trace.classes(by).keys()
        known: dict[object, int] = {
            self.trace.pool_of(key) if by == "pool" else key: at for at, key in enumerate(keys)
        }
        return [known[part.pool if by == "pool" else part.stream] for part in parts]

    @once
    def reconciliation_bytes(self) -> int | None:
        """`end_bytes` minus the bytes in the file's segments; 0 if they agree.

        None if the range that was read ends before the trace does, or if only some allocations
        count.
        """
        trace = self.trace
        if not trace.native.reaches_end or not self._is_whole:
            return None
        if self.measure == "reserved":
            return self.end_bytes - trace.reserved.final_bytes
        return self.end_bytes - trace.native.segment_bytes(self.measure)

    @property
    def _is_plain(self) -> bool:
        """Return whether the replay already has the result of this measure."""
        return self.measure == "requested" and self._is_whole

    @property
    def _is_whole(self) -> bool:
        """Return whether all allocations count."""
        return self.pool is None and self.stream is None

    @once
    def _extremes(self) -> tuple[int, int, int, int, int, float | None]:
        from memreplay.engine.replay import _measures

        return _measures.extremes(self.column, self.start_bytes, self.trace.times)

    def _point(self, n_bytes: int, at: int) -> PeakPoint:
        event = at + self.trace.first_event
        return PeakPoint(n_bytes, event, self.trace.time_us(event))

    # ---- live sets

    @once
    def native(self) -> _timeline.Measure:
        """The allocations that the measure counts, and their lifetimes.

        Raises UsageError for reserved memory.
        """
        trace = self.trace
        if self.measure == "reserved":
            raise UsageError("reserved memory consists of segments, not of allocations")
        if self.measure in ("held", "allocated"):
            found = trace.holding.measure()
        else:
            from memreplay.engine.replay import _timeline

            found = _timeline.requested_measure(trace.native)
        if self.measure in ("active", "allocated"):
            found = trace.blocks.weigh(found)
        for classes, wanted in self._filters:
            found = classes.keep(found, wanted)
        return self._narrowed(found)

    def _narrowed(self, found: _timeline.Measure) -> _timeline.Measure:
        """Limit the measure to the allocations that it counts. Subclasses override this."""
        return found

    def _moment_source(self) -> _timeline.Measure | _timeline.Moments:
        """Return the object that answers queries for live sets. From the second query on, the
        object is an index.
        """
        if not self._asked_before:
            self._asked_before = True
            return self.native
        from memreplay.engine.replay import _timeline

        return self._moments.get("", lambda: _timeline.Moments(self.native))

    @once
    def _filtered_reserved(self) -> tuple[int, Column]:
        """Return the pool's and stream's reserved bytes, at the start and after each event."""
        return self.trace.blocks.reserved_of(self._filters)

    @property
    def _filters(self) -> list[tuple[_measures.Classes, int]]:
        """Return the pool and stream filters. Raises UsageError if one doesn't exist."""
        asked = {"pool": self.pool, "stream": self.stream}
        return [self.trace.class_of(by, one) for by, one in asked.items() if one is not None]

    @once
    def lifetimes(self) -> Lifetimes:
        """All allocations in the trace, then carried-over blocks, each with its beginning
        and end.
        """
        import numpy as np

        columns = self.lifetime_columns()
        return Lifetimes(**{name: np.asarray(one) for name, one in columns.items()})

    def lifetime_columns(self) -> dict[str, Vector]:
        """Return the columns of `lifetimes`."""
        made, freed = self.lifetime_events()
        return {"alloc_event": made, "free_event": freed, **self._columns(*self._lifetime_rows())}

    def lifetime_events(self) -> tuple[Vector, Vector]:
        """Return only two columns of `lifetimes`: `alloc_event` and `free_event`."""
        from memreplay.engine.query._vectors import chosen, joined, vector

        native, (allocs, blocks) = self.native, self._lifetime_rows()
        ends = joined([vector(native.ends())[allocs], vector(native.carried_ends())[blocks]], "I")
        return (
            self._alloc_events(allocs, blocks),
            chosen(ends == _core.ABSENT_ID, -1, ends + self.trace.first_event),
        )

    def _lifetime_rows(self) -> tuple[Vector, Vector]:
        """Return the allocations and the carried-over blocks that count."""
        from memreplay.engine.query._vectors import vector

        return (
            vector(self.native.counted()).rows(),
            (vector(self.native.carried_ends()) != _core.ABSENT_ID - 1).rows(),
        )

    def live_at(self, *, event: int | None = None, time_us: int | None = None) -> LiveSet:
        """Return the live set after an `event` (`Replay.start`: the start) or at the time
        `time_us`.

        The live set at a time includes all events up to that time. Raises UsageError if there is no
        such event, if the file has no times, or unless exactly one of the two is given.
        """
        import numpy as np

        from memreplay.engine.query._vectors import vector

        trace = self.trace
        if (event is None) == (time_us is None):
            raise UsageError("live_at() takes either event= or time_us=")
        if time_us is not None:
            event = trace.event_at(time_us)
        assert event is not None
        trace.check(event)
        found = self._moment_source().live(event - trace.first_event)
        allocs, carried = map(vector, found)
        columns = self._columns(allocs, carried)
        columns["alloc_event"] = self._alloc_events(allocs, carried)
        return LiveSet(
            device=trace.device,
            event_index=event,
            bytes=columns["size"].sum(),
            **{name: np.asarray(one) for name, one in columns.items()},
        )

    def largest(self, event: int, top: int) -> list[tuple[int, bool, int, int]]:
        """Return the largest live allocations after `event`; see `_timeline.Measure.largest`."""
        self.trace.check(event)
        return self._moment_source().largest(event - self.trace.first_event, top)

    def listed(self, event: int) -> tuple[Column, Column]:
        """Return (allocations, carried-over blocks) live after `event`.

        Allocations are given by their events, counted from the first event that was read.
        """
        self.trace.check(event)
        return self._moment_source().live(event - self.trace.first_event)

    def traffic(self, keys: _groups.Keys, begin: int, end: int, top: int) -> _traffic._Found:
        """Return allocations and frees after event `begin` (`Trace.start`: the start) up to `end`,
        by group.

        See `_traffic.pyi`. Raises UsageError.
        """
        from memreplay.engine.query import _traffic

        live = self.listed(begin)
        self.trace.check(end)
        if end < begin:
            raise UsageError(f"events {begin} to {end} don't exist")
        base = self.trace.first_event
        return _traffic.traffic(self.native, keys, live, begin - base, end - base, top)

    @property
    def counted(self) -> Column:
        """Whether each event is an alloc that counts (u8)."""
        return self.native.counted()

    @property
    def carried_ends(self) -> Column:
        """The event that ended each carried-over block (u32), counted from the first event read.

        2**32 - 1 if never freed, 2**32 - 2 if the block doesn't count.
        """
        return self.native.carried_ends()

    def label_frame(self, stack: int, file_rank: bytes, function_rank: bytes) -> int:
        """Return the id of the frame that a stack is attributed to, given the strings' ranks."""
        return self.native.label_frame(stack, file_rank, function_rank)

    def carried_held(self, event: int) -> int:
        """Return the bytes of carried-over blocks still live after `event`."""
        self.trace.check(event)
        return self.native.carried_held(event - self.trace.first_event)

    def parts(self, by: str, event: int) -> tuple[Part, ...]:
        """Split the measure by "pool" or "stream".

        Parts are ordered by size at `event`, largest first. The parts' bytes at `event` add up to
        the measure; each part has its own peak. Raises UsageError if there is no such event.
        """
        trace = self.trace
        trace.check(event)
        classes = trace.classes(by)
        at = event - trace.first_event
        reserved = classes.reserved_sums(at, self._filters)
        sums = reserved if self.measure == "reserved" else self._part_sums(by, at)
        parts = []
        for key, mine, theirs in zip(classes.keys(), sums, reserved, strict=True):
            if not any(sums[i] for sums in (mine, theirs) for i in (0, 1, 3, 5, 6)):
                continue  # always empty
            parts.append(
                Part(
                    pool=trace.pool_of(key) if by == "pool" else UNSET,
                    stream=key if by == "stream" else UNSET,
                    bytes=mine[3],
                    count=0 if self.measure == "reserved" else mine[4],
                    start_bytes=mine[0],
                    peak_bytes=mine[1],
                    peak_event=mine[2] + trace.first_event,
                    end_bytes=mine[5],
                    reserved_bytes=theirs[3],
                    reserved_peak_bytes=theirs[1],
                    reserved_peak_event=theirs[2] + trace.first_event,
                    reserved_end_bytes=theirs[5],
                )
            )
        return tuple(sorted(parts, key=lambda p: (-p.bytes, -p.peak_bytes, -p.reserved_bytes)))

    def _part_sums(self, by: str, at: int) -> list[tuple[int, int, int, int, int, int, int]]:
        """Return `Classes.sums`. From the second call on, this doesn't visit all events."""
        classes = self.trace.classes(by)
        found = self._sums.get(by)
        if found is None:
            found = self._sums[by] = classes.sums(self.native, at)
            return found
        then = classes.listed_sums(self.native, *self._moment_source().live(at))
        return [
            (start, peak, peak_at, n_bytes, live, final, blocks)
            for (start, peak, peak_at, _, _, final, blocks), (n_bytes, live) in zip(
                found, then, strict=True
            )
        ]

    def _alloc_events(self, allocs: Vector, carried: Vector) -> Vector:
        """Return the events of these allocations and carried-over blocks."""
        from memreplay.engine.query._vectors import constant, joined

        return joined([allocs + self.trace.first_event, constant(-1, len(carried))])

    def _columns(self, allocs: Vector, carried: Vector) -> dict[str, Vector]:
        """Return the addresses, sizes and stacks of these allocations and carried-over blocks."""
        from memreplay.engine.query._vectors import joined, vector

        trace, native = self.trace, self.native

        def both(events: Vector, blocks: Column, fmt: str) -> Vector:
            return joined([events[allocs], vector(blocks)[carried]], fmt)

        return {
            "address": both(trace.vector("address", "Q"), trace.native.carried("address"), "Q"),
            "size": both(vector(native.weights()), native.carried_weights(), "q"),
            "stack": both(trace.vector("stack", "I"), trace.native.carried("stack"), "I"),
        }


class MeasuredTrace(Trace):
    """A trace with its measures. Simulations only need this base class."""

    def __init__(
        self,
        native: _timeline.Replay,
        settings: AllocatorSettings,
        backends: Sequence[Backend] = (CUDA,),
    ) -> None:
        super().__init__(native, settings, backends)
        self.recorded_allocator: dict[str, Any] = {}  # cached by snapshot.recorded_allocator

    def usable_bytes(self, total_bytes: int) -> int:
        """Return how much memory the program can use on a card of this size."""
        raise NotImplementedError

    @property
    def card_bytes(self) -> int | None:
        """The card's memory, if the recorder noted it."""
        raise NotImplementedError

    def measure(self, name: MeasureName) -> Measured:
        """Return one measure over the events."""
        raise NotImplementedError
