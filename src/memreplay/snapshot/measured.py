"""One measure over a trace's events: the series, its extremes, and what is live when."""

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
    from memreplay.engine.read.column import Column
    from memreplay.engine.replay import _measures, _timeline
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.backends import Backend

# Two peaks are separate when usage falls between them by this part of its range.
SEPARATION = 0.05


class Measured(Staying):
    """A measure's bytes over the events of one device.

    Event indices are those of the whole trace; `Trace.start` stands for the start.

    What was found, its `__dict__`, is apart from the trace: a trace keeps that of its measures and
    not them, since objects that hold each other stay in memory until Python looks for such.
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
        """Which bytes it counts."""
        self.pool = pool
        """The memory pool that alone counts; None for all."""
        self.stream = stream
        """The stream that alone counts; None for all."""
        self._asked_before = False
        self._moments: Once[str, _timeline.Moments] = Once()
        self._sums: dict[str, list[tuple[int, int, int, int, int, int, int]]] = {}

    # ---- bytes over events

    @once
    def column(self) -> Column:
        """`series` as the engine hands it out."""
        if self.measure == "reserved":
            return self._reserved_alone[1] if self._alone else self.trace.reserved.usage()
        return self.native.usage()

    @once
    def series(self) -> NDArray[np.int64]:
        """Bytes after each event; shape (events,), int64, read-only."""
        import numpy as np

        return np.asarray(self.column)

    def release(self) -> None:
        """Lets go of `column`, `series` and the index of moments, which are made anew when they are
        asked for: 8 bytes an event."""
        for one in ("column", "series"):
            self.__dict__.pop(one, None)
        self._moments.clear()

    @once
    def start_bytes(self) -> int:
        """Bytes before the first event that was read."""
        if self.measure == "reserved":
            return self._reserved_alone[0] if self._alone else self.trace.reserved.start_bytes
        return self.native.start_bytes

    @once
    def end_bytes(self) -> int:
        """Bytes after the last event that was read."""
        if self._is_plain:
            return self.trace.native.final_bytes
        if self.measure != "reserved":
            return self.native.end_bytes
        return self._extremes[4] if self._alone else self.trace.reserved.end_bytes

    @once
    def peak(self) -> PeakPoint:
        """The maximum, and the first event after which it is reached."""
        if self._is_plain:
            return self._point(self.trace.native.peak_bytes, self.trace.native.peak_event)
        return self._point(*self._extremes[:2])

    @once
    def minimum(self) -> PeakPoint:
        """The minimum, and the first event after which it is reached."""
        return self._point(*self._extremes[2:4])

    @once
    def mean_bytes(self) -> int | None:
        """The mean in bytes, weighted by how long each value lasted; None without times."""
        mean = self._extremes[5]
        return None if mean is None else round(mean)

    def peaks(self, most: int) -> tuple[PeakPoint, ...]:
        """The highest separate maxima, the highest first.

        Between two of them usage falls by at least 5 % of its range (maximum less minimum).
        """
        from memreplay.engine.replay import _measures

        high, low = self._extremes[0], self._extremes[2]
        drop = int((high - low) * SEPARATION)
        found = _measures.maxima(self.column, self.start_bytes, drop, most)
        return tuple(self._point(*one) for one in found)

    def bytes_at(self, event: int) -> int:
        """After one event; `Trace.start` is the start. Raises UsageError where it is not there."""
        self.trace.check(event)
        at = event - self.trace.first_event
        if at < 0:
            return self.start_bytes
        value: int = memoryview(self.column)[at]
        return value

    def highest(self, first: int, last: int) -> PeakPoint:
        """The maximum after the events `first` to `last` (`Trace.start` is the start), the first
        of equal ones. Raises UsageError for events that are not there."""
        from memreplay.engine.replay import _measures

        self.trace.check(first)
        self.trace.check(last)
        base = self.trace.first_event
        found = self._point(self.start_bytes, -1) if first < base else None
        if last >= max(first, base):
            top = self._point(*_measures.highest(self.column, max(first, base) - base, last - base))
            found = top if found is None or top.bytes > found.bytes else found
        if found is None:
            raise UsageError(f"no events {first} to {last}")
        return found

    def buckets(self, parts: int, *, by_time: bool = False) -> Buckets:
        """The series cut into so many buckets at most, each with its minimum and maximum.

        By event there are no more of them than events, by time than microseconds (but one at
        least). Raises UsageError by time where events have none.
        """
        from memreplay.engine.replay import _measures

        trace = self.trace
        origin = whole = 0
        clock = None
        if by_time and trace.events:
            if trace.time_range is None:
                raise UsageError(f"device {trace.device} has no times; name --x event instead")
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
        """The minimum and the maximum after the events from each bound up to the next, and the
        first event after which the maximum is reached: a list each, one shorter than `bounds`.

        A range without events has the value after the event before it. The last bound may be one
        past the last event. Raises UsageError for bounds that fall or are of no event, and for
        none.
        """
        from array import array

        from memreplay.engine.replay import _measures

        base, events = self.trace.first_event, self.trace.events
        try:
            at = array("q", [bound - base for bound in bounds])
            found = _measures.ranges(self.column, self.start_bytes, at)
        except (OverflowError, ValueError):
            raise UsageError(
                f"bounds of ranges are events from {base} to {base + events}, and never fall"
            ) from None
        low, high, high_at = (memoryview(one).tolist() for one in found)
        return low, high, [event + base for event in high_at]

    def layers(
        self, keys: _groups.Keys, wanted: Sequence[int], samples: Sequence[int]
    ) -> list[list[int]]:
        """Bytes of each of the `wanted` groups, and of all others together, after each of the
        events `samples`, which come in their order."""
        base = self.trace.first_event
        found = keys.layers(self.native, wanted, [event - base for event in samples])
        return [memoryview(one).tolist() for one in found]

    def bests(self, keys: _groups.Keys, top: int) -> tuple[list[tuple[int, int, int, int]], int]:
        """([(name, number, bytes, event)], how many) of the groups that ever hold anything: the
        most that each holds, and the first event after which it does; the largest first."""
        found, total = keys.bests(self.native, top)
        base = self.trace.first_event
        return [(name, number, n, event + base) for name, number, n, event in found], total

    def reserved_layers(
        self, by: str, wanted: Sequence[int], samples: Sequence[int]
    ) -> list[list[int]]:
        """The same of reserved memory, by "pool" or "stream": groups are the numbers of
        `part_classes`."""
        from memreplay.engine.query import _layers

        base = self.trace.first_event
        at = [event - base for event in samples]
        found = _layers.reserved_layers(self.trace.classes(by), wanted, at, self._alone)
        return [memoryview(one).tolist() for one in found]

    def part_classes(self, by: str, parts: Sequence[Part]) -> list[int]:
        """The numbers by which `reserved_layers` knows pools or streams."""
        keys = self.trace.classes(by).keys()
        known: dict[object, int] = {
            self.trace.pool_of(key) if by == "pool" else key: at for at, key in enumerate(keys)
        }
        return [known[part.pool if by == "pool" else part.stream] for part in parts]

    @once
    def reconciliation_bytes(self) -> int | None:
        """`end_bytes` less what the file's segments hold: 0 when the two agree.

        None where the range that was read ends before the trace does, and of a part alone.
        """
        trace = self.trace
        if not trace.native.reaches_end or not self._is_whole:
            return None
        if self.measure == "reserved":
            return self.end_bytes - trace.reserved.final_bytes
        return self.end_bytes - trace.native.segment_bytes(self.measure)

    @property
    def _is_plain(self) -> bool:
        """Whether the replay has the answer at hand."""
        return self.measure == "requested" and self._is_whole

    @property
    def _is_whole(self) -> bool:
        """Whether all allocations count."""
        return self.pool is None and self.stream is None

    @once
    def _extremes(self) -> tuple[int, int, int, int, int, float | None]:
        from memreplay.engine.replay import _measures

        return _measures.extremes(self.column, self.start_bytes, self.trace.times)

    def _point(self, n_bytes: int, at: int) -> PeakPoint:
        event = at + self.trace.first_event
        return PeakPoint(n_bytes, event, self.trace.time_us(event))

    # ---- what is live

    @once
    def native(self) -> _timeline.Measure:
        """Which allocations count, from when to when. Raises UsageError for reserved memory."""
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
        for classes, wanted in self._alone:
            found = classes.keep(found, wanted)
        return self._narrowed(found)

    def _narrowed(self, found: _timeline.Measure) -> _timeline.Measure:
        """What is left of it where not all allocations count."""
        return found

    def _asked(self) -> _timeline.Measure | _timeline.Moments:
        """What answers a question about a moment: from the second one on an index, which one alone
        would not be worth."""
        if not self._asked_before:
            self._asked_before = True
            return self.native
        from memreplay.engine.replay import _timeline

        return self._moments.get("", lambda: _timeline.Moments(self.native))

    @once
    def _reserved_alone(self) -> tuple[int, Column]:
        """Reserved bytes of the pool and the stream: at the start, and after each event."""
        return self.trace.blocks.reserved_of(self._alone)

    @property
    def _alone(self) -> list[tuple[_measures.Classes, int]]:
        """The pool and the stream that alone count. Raises UsageError where one is not there."""
        asked = {"pool": self.pool, "stream": self.stream}
        return [self.trace.class_of(by, one) for by, one in asked.items() if one is not None]

    @once
    def lifetimes(self) -> Lifetimes:
        """Every allocation of the trace, then the carried blocks, with when it began and
        ended."""
        import numpy as np

        first = self.trace.first_event
        allocs = np.flatnonzero(np.asarray(self.native.counted()))
        blocks = np.flatnonzero(np.asarray(self.native.carried_ends()) != _core.ABSENT_ID - 1)
        ends = np.concatenate(
            [
                np.asarray(self.native.ends())[allocs],
                np.asarray(self.native.carried_ends())[blocks],
            ]
        )
        return Lifetimes(
            alloc_event=np.concatenate([allocs + first, np.full(len(blocks), -1, dtype=np.int64)]),
            free_event=np.where(ends == _core.ABSENT_ID, -1, ends.astype(np.int64) + first),
            **self._columns(allocs, blocks),
        )

    def live_at(self, *, event: int | None = None, time_us: int | None = None) -> LiveSet:
        """What is live after an `event` (`Replay.start`: at the start), or at a time, `time_us`
        (after the events up to it).

        Raises UsageError when there is no such event, when the file has no times, or when not
        exactly one of the two is given.
        """
        import numpy as np

        trace = self.trace
        if (event is None) == (time_us is None):
            raise UsageError("live_at() takes either event= or time_us=")
        if time_us is not None:
            event = trace.event_at(time_us)
        assert event is not None
        trace.check(event)
        found = self._asked().live(event - trace.first_event)
        allocs, carried = (np.asarray(c) for c in found)
        columns = self._columns(allocs, carried)
        return LiveSet(
            device=trace.device,
            event_index=event,
            bytes=int(columns["size"].sum()),
            alloc_event=np.concatenate(
                [
                    allocs.astype(np.int64) + trace.first_event,
                    np.full(len(carried), -1, dtype=np.int64),
                ]
            ),
            **columns,
        )

    def largest(self, event: int, top: int) -> list[tuple[int, bool, int, int]]:
        """The largest live allocations after `event`; see `_timeline.Measure.largest`."""
        self.trace.check(event)
        return self._asked().largest(event - self.trace.first_event, top)

    def listed(self, event: int) -> tuple[Column, Column]:
        """What is live after `event`: its allocations (events that were read, from 0) and carried
        blocks."""
        self.trace.check(event)
        return self._asked().live(event - self.trace.first_event)

    def traffic(self, keys: _groups.Keys, begin: int, end: int, top: int) -> _traffic._Found:
        """What came and went after the event `begin` (`Trace.start`: the start) up to `end`, by
        group; see `_traffic.pyi`. Raises UsageError."""
        from memreplay.engine.query import _traffic

        live = self.listed(begin)
        self.trace.check(end)
        if end < begin:
            raise UsageError(f"no events {begin} to {end}")
        base = self.trace.first_event
        return _traffic.traffic(self.native, keys, live, begin - base, end - base, top)

    @property
    def counted(self) -> Column:
        """u8 an event: whether it is an alloc that counts."""
        return self.native.counted()

    @property
    def carried_ends(self) -> Column:
        """u32 a carried block: the event that ended it, counted from the first that was read;
        2**32 - 1 where none did, 2**32 - 2 where the block does not count."""
        return self.native.carried_ends()

    def label_frame(self, stack: int, file_rank: bytes, function_rank: bytes) -> int:
        """The frame (its id) by which a stack is called, as these ranks of strings have it."""
        return self.native.label_frame(stack, file_rank, function_rank)

    def carried_held(self, event: int) -> int:
        """Bytes of what was carried over that are still live after `event`."""
        self.trace.check(event)
        return self.native.carried_held(event - self.trace.first_event)

    def parts(self, by: str, event: int) -> tuple[Part, ...]:
        """The measure by "pool" or "stream": the parts that have anything, largest first at
        `event`.

        What is at `event` adds up to the measure there; peaks of parts are each its own. Raises
        UsageError when there is no such event.
        """
        trace = self.trace
        trace.check(event)
        classes = trace.classes(by)
        at = event - trace.first_event
        reserved = classes.reserved_sums(at, self._alone)
        sums = reserved if self.measure == "reserved" else self._part_sums(by, at)
        parts = []
        for key, mine, theirs in zip(classes.keys(), sums, reserved, strict=True):
            if not any(sums[i] for sums in (mine, theirs) for i in (0, 1, 3, 5, 6)):
                continue  # nothing ever came or went
            parts.append(
                Part(
                    pool=trace.pool_of(key) if by == "pool" else UNSET,
                    stream=key if by == "stream" else UNSET,
                    bytes=mine[3],
                    count=0 if self.measure == "reserved" else mine[4],
                    start_bytes=mine[0],
                    peak_bytes=mine[1],
                    event_index=mine[2] + trace.first_event,
                    end_bytes=mine[5],
                    reserved_bytes=theirs[3],
                    reserved_peak_bytes=theirs[1],
                    reserved_peak_event=theirs[2] + trace.first_event,
                    reserved_end_bytes=theirs[5],
                )
            )
        return tuple(sorted(parts, key=lambda p: (-p.bytes, -p.peak_bytes, -p.reserved_bytes)))

    def _part_sums(self, by: str, at: int) -> list[tuple[int, int, int, int, int, int, int]]:
        """`Classes.sums`; from the second question on without another look at every event."""
        classes = self.trace.classes(by)
        found = self._sums.get(by)
        if found is None:
            found = self._sums[by] = classes.sums(self.native, at)
            return found
        then = classes.listed_sums(self.native, *self._asked().live(at))
        return [
            (start, peak, peak_at, n_bytes, live, final, blocks)
            for (start, peak, peak_at, _, _, final, blocks), (n_bytes, live) in zip(
                found, then, strict=True
            )
        ]

    def _columns(self, allocs: NDArray[Any], carried: NDArray[Any]) -> dict[str, Any]:
        """address, size and stack of these allocations and carried blocks."""
        import numpy as np

        native = self.trace.native
        first = native.first_row

        def both(events: NDArray[Any], blocks: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([events[allocs], blocks[carried]])

        def column(name: str) -> NDArray[Any]:
            return np.asarray(native.tables.column(name))[first : first + self.trace.events]

        return {
            "address": both(column("address"), np.asarray(native.carried("address"))),
            "size": both(
                np.asarray(self.native.weights()), np.asarray(self.native.carried_weights())
            ),
            "stack": both(column("stack"), np.asarray(native.carried("stack"))),
        }


class MeasuredTrace(Trace):
    """A trace with its measures: what a simulation of it asks for."""

    def __init__(
        self,
        native: _timeline.Replay,
        settings: AllocatorSettings,
        backends: Sequence[Backend] = (CUDA,),
    ) -> None:
        super().__init__(native, settings, backends)
        self.recorded_allocator: dict[str, Any] = {}  # kept by snapshot.recorded_allocator

    def usable_bytes(self, total_bytes: int) -> int:
        """What a card with so much memory has for the program."""
        raise NotImplementedError

    @property
    def card_bytes(self) -> int | None:
        """The memory of the card, where the recorder noted it."""
        raise NotImplementedError

    def measure(self, name: MeasureName) -> Measured:
        """One measure over the events."""
        raise NotImplementedError
