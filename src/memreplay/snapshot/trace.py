"""One device's trace with frees matched to allocations: its events, its times, and the data for its
measures.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from msgspec import Struct

import memreplay._core as _core
from memreplay.errors import UsageError
from memreplay.snapshot.backends import CUDA
from memreplay.snapshot.model import SegmentChanges, Span
from memreplay.snapshot.once import Once, once
from memreplay.snapshot.staying import Staying

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.engine.query._groups import Keys
    from memreplay.engine.query._vectors import Vector
    from memreplay.engine.read.column import Column
    from memreplay.engine.replay import _measures, _timeline
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.backends import Backend


SHOWN = 10  # maximum number of pools or streams to list in an error


class Tally(Struct, frozen=True):
    """Counts of the events that were read and of the device's final segments and blocks."""

    actions: dict[int, int]  # number of events per action code
    with_stack: int
    times: tuple[int, int] | None  # times of the first and last event, in microseconds
    segments: int
    reserved_bytes: int
    expandable: tuple[int, int]  # number of segments and segment events: (expandable, other)
    states: list[tuple[int, int, int, int]]  # code, blocks, bytes, requested bytes of active blocks


class Trace(Staying):
    """One device's events, and the state before them.

    Event indices count from the device's first event; -1 is the start. They don't change if only a
    range was read: the range's events are `first_event` to `first_event + events - 1`, its start is
    `first_event - 1`, and memory live then is carried over.
    """

    def __init__(
        self,
        native: _timeline.Replay,
        settings: AllocatorSettings,
        backends: Sequence[Backend] = (CUDA,),
    ) -> None:
        self.native = native
        self.settings = settings
        self._backends = backends
        self._classes: Once[str, _measures.Classes] = Once()
        self._places: Once[str, dict[object, int]] = Once()
        self.spans: tuple[Span, ...] | None = None  # set by analysis.annotations
        self.known_steps: Any = None  # set by analysis.steps; a Found
        self.origins: Keys | None = None  # set by analysis.groups
        self.ring_signs: tuple[Any, ...] | None = None  # set by analysis.trust.ring
        self.likely: Column | None = None  # set by analysis.categories.before

    @property
    def device(self) -> int:
        """Device number."""
        return self.native.device

    @property
    def events(self) -> int:
        """Number of events in the device's trace, or in the range that was read."""
        return self.native.events

    @property
    def first_event(self) -> int:
        """Index of the first event that was read: 0, or where the range begins."""
        return self.native.base

    @property
    def start(self) -> int:
        """The start's event index: -1, or the event before the range."""
        return self.native.base - 1

    @property
    def reaches_end(self) -> bool:
        """Whether the last event read is the trace's last."""
        return self.native.reaches_end

    @once
    def tally(self) -> Tally:
        found: dict[str, Any] = dict(self.native.tally())
        return Tally(**found | {"actions": dict(found["actions"])})

    @property
    def allocations(self) -> int:
        """Number of alloc events read."""
        return self.native.allocs

    @property
    def carried_blocks(self) -> int:
        """Number of blocks that were live before the first event."""
        return self.native.carried_blocks

    @property
    def carried_over_bytes(self) -> int:
        """Requested bytes live before the first event."""
        return self.native.carried_bytes

    @property
    def end_bytes(self) -> int:
        """Requested bytes live after the last event."""
        return self.native.final_bytes

    @property
    def segment_requested_bytes(self) -> int:
        """Requested bytes according to the device's final segments."""
        return self.native.segment_requested_bytes

    @property
    def snapshot_totals(self) -> list[tuple[int, int]]:
        """(event, active bytes) for each `snapshot` event."""
        return self.native.snapshot_events()

    @property
    def unmatched_frees(self) -> int:
        """Number of frees at addresses that the trace had already freed without allocating them
        again.
        """
        return self.native.unmatched_frees

    @property
    def double_allocs(self) -> int:
        """Number of allocations at live addresses. The older allocation is assumed to end there."""
        return self.native.double_allocs

    @property
    def size_mismatches(self) -> int:
        """Number of frees whose size differs from their allocation's."""
        return self.native.size_mismatches

    @property
    def unknown_actions(self) -> int:
        """Number of events with an unknown action, which have no effect."""
        return self.native.unknown_actions

    # ---- data for the measures

    @once
    def holding(self) -> _measures.Holding:
        """When the program freed each allocation."""
        from memreplay.engine.replay import _measures

        return _measures.Holding(self.native)

    @once
    def reserved(self) -> _measures.Reserved:
        """The segments over time."""
        from memreplay.engine.replay import _measures

        return _measures.Reserved(self.native)

    @property
    def blocks(self) -> _measures.Blocks:
        """The allocator's blocks over time."""
        return self._fitted[1]

    @property
    def backend(self) -> Backend:
        """The allocator's backend: the first one that the file doesn't contradict."""
        return self._backends[0] if len(self._backends) == 1 else self._fitted[0]

    @once
    def _fitted(self) -> tuple[Backend, _measures.Blocks]:
        found: tuple[Backend, _measures.Blocks] | None = None
        for backend in self._backends:
            blocks = self._blocks_of(backend)
            if found is None or _contradictions(blocks) < _contradictions(found[1]):
                found = backend, blocks
            if not _contradictions(found[1]):
                break
        assert found is not None
        return found

    def _blocks_of(self, backend: Backend) -> _measures.Blocks:
        from memreplay.engine.replay import _measures

        known = self.settings
        return _measures.Blocks(
            *(self.reserved, known.divisions, known.max_split_bytes, known.expandable),
            pad=backend.pad_bytes,
            align=backend.align_bytes,
        )

    @once
    def soundness(self) -> dict[str, int]:
        """Contradictions at the start; see `_soundness.soundness`."""
        from memreplay.engine.replay import _soundness

        return _soundness.soundness(self.reserved)

    @once
    def segment_changes(self) -> SegmentChanges:
        """The segment events, which reserve and release memory, with times and stacks."""
        from memreplay.engine.query._vectors import chosen, vector

        at = vector(self.reserved.events())

        def column(name: str, fmt: str) -> Vector:
            return self.vector(name, fmt)[at]

        action, size = column("action", "B"), column("size", "q")
        grows = action.is_in([_core.ACTIONS.index(a) for a in ("segment_alloc", "segment_map")])
        signed = chosen(grows, size, -size)
        return SegmentChanges(
            event=at + self.first_event,
            action=action,
            address=column("address", "Q"),
            bytes=signed,
            reserved=self.reserved.start_bytes + signed.sums(),
            time_us=column("time", "q"),
            stream=column("stream", "Q"),
            pool=vector(self.blocks.pools())[at],
            stack=column("stack", "I"),
        )

    def forget_holding(self) -> None:
        """Release `holding`, which takes 4 bytes per event. It's recomputed on access."""
        self.__dict__.pop("holding", None)

    def forget_classes(self) -> None:
        """Release `classes`, which are recomputed on access.

        Each takes up to 12 bytes per event, and about 170 bytes per pool or stream that was looked
        up by name.
        """
        self._classes.clear()
        self._places.clear()

    def classes(self, by: str) -> _measures.Classes:
        """Group allocations and segments by "pool" or "stream"."""
        from memreplay.engine.replay import _measures

        return self._classes.get(by, lambda: _measures.Classes(self.blocks, by))

    def class_of(self, by: str, wanted: object) -> tuple[_measures.Classes, int]:
        """Return the classes, and the index in them of a pool (two numbers) or stream. Raises
        UsageError.
        """
        classes = self.classes(by)
        places = self._places.get(by, lambda: self._placed(by))
        if wanted is None or wanted not in places:
            known = [key for key in places if key is not None]
            there = ", ".join(map(_spelled, known[:SHOWN])) or "none is known"
            there += f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
            raise UsageError(
                f"device {self.device} has no {by} {_spelled(wanted)}; its {by}s: {there}"
            )
        return classes, places[wanted]

    def _placed(self, by: str) -> dict[object, int]:
        """Map each pool or stream to its index, in order. None (unknown) comes first."""
        keys = self.classes(by).keys()
        return {self.pool_of(key) if by == "pool" else key: at for at, key in enumerate(keys)}

    def pool_of(self, key: int | None) -> tuple[int, int] | None:
        """Return the pool with this id."""
        return None if key is None else self.native.tables.pool(key)

    # ---- events and times

    def column(self, name: str) -> memoryview | int:
        """Return a column for the events that were read, or a number if it's constant in the whole
        file.
        """
        found = self.native.tables.column(name)
        if isinstance(found, int):
            return found
        first = self.native.first_row
        return memoryview(found)[first : first + self.events]

    def vector(self, name: str, fmt: str) -> Vector:
        """Return a column for the events that were read, to compute with. If it's constant,
        `fmt` is its format.
        """
        from memreplay.engine.query._vectors import constant, vector

        found = self.column(name)
        return constant(found, self.events, fmt) if isinstance(found, int) else vector(found)

    def earlier(self, name: str, fmt: str) -> Vector:
        """Like `vector`, for the events in the traces before this one."""
        from memreplay.engine.query._vectors import constant, vector

        found, n = self.native.tables.column(name), self.native.first_row
        return constant(found, n, fmt) if isinstance(found, int) else vector(found)[:n]

    def value(self, name: str, event: int) -> int:
        """Return an event's value in a column."""
        return self.native.tables.number(name, self.native.first_row + event - self.first_event)

    def final_segments(self, field: str) -> Vector:
        """Return a column of the segments at the end, of all devices, to compute with."""
        from memreplay.engine.query._vectors import vector

        return vector(self.native.tables.rows("segment", field))

    def carried(self, field: str) -> memoryview:
        """Return a column of the carried-over blocks: address, size, stack, end, block or
        alloc_index.
        """
        return memoryview(self.native.carried(field))

    @once
    def oom_free(self) -> dict[int, int]:
        """The driver's free memory at each oom event, if known."""
        tables, shift = self.native.tables, self.first_event - self.native.first_row
        rows, free = (tables.column(name) for name in ("oom_event", "oom_free"))
        assert not isinstance(rows, int)
        assert not isinstance(free, int)
        found = zip(memoryview(rows).tolist(), memoryview(free).tolist(), strict=True)
        beyond = self.first_event + self.events
        return {
            row + shift: n_bytes
            for row, n_bytes in found
            if self.first_event <= row + shift < beyond
        }

    def events_of(self, action: str) -> list[int]:
        """Return the indices of the events with an action ("oom", "snapshot", …)."""
        column = self.column("action")
        assert not isinstance(column, int)
        codes = bytes(column)
        code = _core.ACTIONS.index(action)
        found = []
        at = codes.find(code)
        while at >= 0:
            found.append(at + self.first_event)
            at = codes.find(code, at + 1)
        return found

    def request_of(self, event: int) -> tuple[int, int]:
        """Return an event's size and stack id."""
        self.check(event)
        return self.value("size", event), self.value("stack", event)

    @once
    def times(self) -> Column | None:
        """The events' times; None if all are equal or missing."""
        return self.native.times()

    @property
    def has_times(self) -> bool:
        """Whether any event has a time."""
        if self.clock is None:
            return self.events > 0 and self.native.tables.column("time") != _core.ABSENT_TIME
        return self.events > 0 and self.clock[-1] != _core.ABSENT_TIME

    def time_us(self, event: int) -> int | None:
        """Return an event's time, or for the start, the first event's; None if unknown.

        Raises UsageError if the event doesn't exist.
        """
        self.check(event)
        if self.events == 0:
            return None
        value = self.value("time", max(event, self.first_event))
        return None if value == _core.ABSENT_TIME else value

    @once
    def clock(self) -> memoryview | None:
        """For each event, the latest time up to it, which never decreases; None as for `times`."""
        return None if self.clock_column is None else memoryview(self.clock_column)

    def clock_us(self, event: int) -> int | None:
        """Return the latest time up to an event; None if it's unknown or for the start."""
        self.check(event)
        at = event - self.first_event
        if at < 0 or self.clock is None:
            return None if at < 0 else self.time_us(event)
        value = self.clock[at]
        return None if value == _core.ABSENT_TIME else value

    @once
    def clock_column(self) -> Column | None:
        """`clock` as an engine column."""
        return self.native.clock()

    @once
    def time_range(self) -> tuple[int, int] | None:
        """The events' first and latest time; None without times."""
        if not self.has_times:
            return None
        if self.clock is None:
            one = self.native.tables.column("time")
            assert isinstance(one, int)
            return one, one
        return self.clock[bisect_right(self.clock, _core.ABSENT_TIME)], self.clock[-1]

    @property
    def origin_us(self) -> int | None:
        """The whole trace's first time, from which elapsed times are counted; None without
        times.
        """
        if self.native.first_time != _core.ABSENT_TIME:
            return self.native.first_time
        return None if self.time_range is None else self.time_range[0]

    def times_us(self, indices: list[int]) -> list[int | None]:
        """Return the times of these events as `time_us` does. Indices count from the first event
        that was read.
        """
        if self.events == 0:
            return [None] * len(indices)
        column = self.native.tables.column("time")
        if isinstance(column, int):
            return [None if column == _core.ABSENT_TIME else column] * len(indices)
        times = memoryview(column)[self.native.first_row :]
        found = (times[max(index, 0)] for index in indices)
        return [None if time == _core.ABSENT_TIME else time for time in found]

    def event_at(self, time_us: int) -> int:
        """Return the event before the first one that is later than `time_us`, or the start.

        Raises UsageError if events have no times.
        """
        clock = self.clock
        if clock is None:
            one = self.native.tables.column("time")
            assert isinstance(one, int)
            if one == _core.ABSENT_TIME and self.events:
                raise UsageError("this snapshot has no times; specify an event instead")
            return self.start + (self.events if one <= time_us else 0)
        if self.events and clock[-1] == _core.ABSENT_TIME:
            raise UsageError("this device's events have no times; specify an event instead")
        # Events are ordered by index, not by time, so the time of an event counts as the latest
        # time so far.
        return self.start + bisect_right(clock, time_us)

    def check(self, event: int) -> None:
        """Raise UsageError if there is no such event."""
        last = self.start + self.events
        if not self.start <= event <= last:
            there = f"{self.first_event} to {last}" if self.events else "none"
            raise UsageError(f"device {self.device} has no event {event}; its events: {there}")


def _contradictions(blocks: _measures.Blocks) -> int:
    """Count allocations and final blocks whose location or size contradicts the backend's rules."""
    return blocks.misplaced + blocks.end_misfits


def _spelled(key: object) -> str:
    return f"{key[0]}:{key[1]}" if isinstance(key, tuple) else str(key)
