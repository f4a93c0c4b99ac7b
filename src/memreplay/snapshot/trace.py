"""One device's trace, matched: its events and times, and what measures of it are made of."""

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

    from numpy.typing import NDArray

    from memreplay.engine.query._groups import Keys
    from memreplay.engine.read.column import Column
    from memreplay.engine.replay import _measures, _timeline
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.backends import Backend


SHOWN = 10  # pools or streams that an error names


class Tally(Struct, frozen=True):
    """Counts of the events that were read, and of the device's final segments and blocks."""

    actions: dict[int, int]  # events by the code of their action
    with_stack: int
    times: tuple[int, int] | None  # of the first event and the last, in microseconds
    segments: int
    reserved_bytes: int
    expandable: tuple[int, int]  # segments and their events: of expandable ones, and of others
    states: list[tuple[int, int, int, int]]  # code, blocks, bytes, requested bytes of active ones


class Trace(Staying):
    """One device's events, and what stands at their start.

    Event indices count from the device's first event; -1 is the start, before it. Where a range was
    read they still do: its events are `first_event` to `first_event + events - 1`, its start is
    `first_event - 1`, and what was live then is carried over.
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
        self.spans: tuple[Span, ...] | None = None  # kept here by analysis.annotations
        self.origins: Keys | None = None  # kept here by analysis.groups
        self.ring_signs: tuple[Any, ...] | None = None  # kept here by analysis.trust.ring
        self.likely: Column | None = None  # kept here by analysis.categories.before

    @property
    def device(self) -> int:
        """The device's number."""
        return self.native.device

    @property
    def events(self) -> int:
        """How many events there are: of the device's trace, or of the range that was read."""
        return self.native.events

    @property
    def first_event(self) -> int:
        """The index of the first of them: 0, or where the range begins."""
        return self.native.base

    @property
    def start(self) -> int:
        """The event index that stands for the start: -1, or the event before the range."""
        return self.native.base - 1

    @property
    def reaches_end(self) -> bool:
        """Whether the last event that was read is the trace's last."""
        return self.native.reaches_end

    @once
    def tally(self) -> Tally:
        found: dict[str, Any] = dict(self.native.tally())
        return Tally(**found | {"actions": dict(found["actions"])})

    @property
    def allocations(self) -> int:
        """How many alloc events were read."""
        return self.native.allocs

    @property
    def carried_blocks(self) -> int:
        """How many blocks were live before the first event."""
        return self.native.carried_blocks

    @property
    def carried_over_bytes(self) -> int:
        """Requested bytes that were live before the first event."""
        return self.native.carried_bytes

    @property
    def end_bytes(self) -> int:
        """Requested bytes that are live after the last event."""
        return self.native.final_bytes

    @property
    def segment_requested_bytes(self) -> int:
        """What the device's final segments say was requested of them."""
        return self.native.segment_requested_bytes

    @property
    def snapshot_totals(self) -> list[tuple[int, int]]:
        """(event, bytes that are active then) of each `snapshot` event."""
        return self.native.snapshot_events()

    @property
    def unmatched_frees(self) -> int:
        """Frees of an address that the trace freed before and did not allocate again."""
        return self.native.unmatched_frees

    @property
    def double_allocs(self) -> int:
        """Allocations of an address that was live; the older one is taken to have ended there."""
        return self.native.double_allocs

    @property
    def size_mismatches(self) -> int:
        """Frees whose size is not their allocation's."""
        return self.native.size_mismatches

    @property
    def unknown_actions(self) -> int:
        """Events whose action has no known meaning; they have no effect."""
        return self.native.unknown_actions

    # ---- what the measures are made of

    @once
    def holding(self) -> _measures.Holding:
        """When each allocation was let go."""
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
        """Whose allocator recorded the trace: the first that the file doesn't contradict."""
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
        """What of the start cannot be; see `_soundness.soundness`."""
        from memreplay.engine.replay import _soundness

        return _soundness.soundness(self.reserved)

    @once
    def segment_changes(self) -> SegmentChanges:
        """The segment events: what was reserved and given back, when, and who asked."""
        import numpy as np

        at = np.asarray(self.reserved.events()).astype(np.int64)

        def column(name: str, dtype: str) -> NDArray[Any]:
            found = self.column(name)
            if isinstance(found, int):
                return np.full(len(at), found, dtype=dtype)
            return np.asarray(found)[at]

        action = column("action", "u1")
        size = column("size", "i8")
        grows = np.isin(action, [_core.ACTIONS.index(a) for a in ("segment_alloc", "segment_map")])
        signed = np.where(grows, size, -size)
        return SegmentChanges(
            event=at + self.first_event,
            action=action,
            address=column("address", "u8"),
            bytes=signed,
            reserved=self.reserved.start_bytes + np.cumsum(signed),
            time_us=column("time", "i8"),
            stream=column("stream", "u8"),
            pool=np.asarray(self.blocks.pools())[at],
            stack=column("stack", "u4"),
        )

    def forget_holding(self) -> None:
        """Lets go of `holding`, which is made anew when it is asked for: 4 bytes an event."""
        self.__dict__.pop("holding", None)

    def forget_classes(self) -> None:
        """Lets go of `classes`, which are made anew when they are asked for: up to 12 bytes an
        event each, and some 170 a pool or stream that was looked for by its name."""
        self._classes.clear()
        self._places.clear()

    def classes(self, by: str) -> _measures.Classes:
        """Allocations and segments by "pool" or "stream"."""
        from memreplay.engine.replay import _measures

        return self._classes.get(by, lambda: _measures.Classes(self.blocks, by))

    def class_of(self, by: str, wanted: object) -> tuple[_measures.Classes, int]:
        """Where one pool (two numbers) or stream is among all. Raises UsageError when it is not
        there."""
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
        """Where each pool or stream is among all, in their order; None, which is not known, is the
        first."""
        keys = self.classes(by).keys()
        return {self.pool_of(key) if by == "pool" else key: at for at, key in enumerate(keys)}

    def pool_of(self, key: int | None) -> tuple[int, int] | None:
        """The pool that an id stands for."""
        return None if key is None else self.native.tables.pool(key)

    # ---- events and times

    def column(self, name: str) -> memoryview | int:
        """A column of the events that were read, an item each; one number where all rows of the
        file have it."""
        found = self.native.tables.column(name)
        if isinstance(found, int):
            return found
        first = self.native.first_row
        return memoryview(found)[first : first + self.events]

    def value(self, name: str, event: int) -> int:
        """What one event has in a column."""
        return self.native.tables.number(name, self.native.first_row + event - self.first_event)

    def carried(self, field: str) -> memoryview:
        """A column of the carried blocks: address, size, stack, end, block or made."""
        return memoryview(self.native.carried(field))

    @once
    def oom_free(self) -> dict[int, int]:
        """What the driver said was free at an oom event, by the event, where it says so."""
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
        """The events of one action ("oom", "snapshot", …), by index."""
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
        """The size and the stack (its id) that an event carries."""
        self.check(event)
        return self.value("size", event), self.value("stack", event)

    @once
    def times(self) -> Column | None:
        """The times of the events, or None where they are all one, or absent."""
        return self.native.times()

    @property
    def has_times(self) -> bool:
        """Whether any event has a time."""
        if self.clock is None:
            return self.events > 0 and self.native.tables.column("time") != _core.ABSENT_TIME
        return self.events > 0 and self.clock[-1] != _core.ABSENT_TIME

    def time_us(self, event: int) -> int | None:
        """The time of an event (the first one's for the start); None where the file has none.

        Raises UsageError for an event that is not there.
        """
        self.check(event)
        if self.events == 0:
            return None
        value = self.value("time", max(event, self.first_event))
        return None if value == _core.ABSENT_TIME else value

    @once
    def clock(self) -> memoryview | None:
        """The latest time up to each event, so that it never falls; None as `times`."""
        return None if self.clock_column is None else memoryview(self.clock_column)

    def clock_us(self, event: int) -> int | None:
        """The latest time up to an event; None where it has none, and at the start."""
        self.check(event)
        at = event - self.first_event
        if at < 0 or self.clock is None:
            return None if at < 0 else self.time_us(event)
        value = self.clock[at]
        return None if value == _core.ABSENT_TIME else value

    @once
    def clock_column(self) -> Column | None:
        """`clock` as the engine hands it out."""
        return self.native.clock()

    @once
    def time_range(self) -> tuple[int, int] | None:
        """The first and the latest time of the events; None where they have none."""
        if not self.has_times:
            return None
        if self.clock is None:
            one = self.native.tables.column("time")
            assert isinstance(one, int)
            return one, one
        return self.clock[bisect_right(self.clock, _core.ABSENT_TIME)], self.clock[-1]

    @property
    def origin_us(self) -> int | None:
        """The first time of the whole trace, which times since the start count from; None where
        there is none."""
        if self.native.first_time != _core.ABSENT_TIME:
            return self.native.first_time
        return None if self.time_range is None else self.time_range[0]

    def times_us(self, indices: list[int]) -> list[int | None]:
        """The times of these events, by index from the first that was read on; as `time_us`."""
        if self.events == 0:
            return [None] * len(indices)
        column = self.native.tables.column("time")
        if isinstance(column, int):
            return [None if column == _core.ABSENT_TIME else column] * len(indices)
        times = memoryview(column)[self.native.first_row :]
        found = (times[max(index, 0)] for index in indices)
        return [None if time == _core.ABSENT_TIME else time for time in found]

    def event_at(self, time_us: int) -> int:
        """The last event before the first one that is later than `time_us`; else the start.

        Raises UsageError when events have no times.
        """
        clock = self.clock
        if clock is None:
            one = self.native.tables.column("time")
            assert isinstance(one, int)
            if one == _core.ABSENT_TIME and self.events:
                raise UsageError("this snapshot has no times; name an event instead")
            return self.start + (self.events if one <= time_us else 0)
        if self.events and clock[-1] == _core.ABSENT_TIME:
            raise UsageError("this device's events have no times; name an event instead")
        # Order is by index, never by time: an event's moment is the latest time seen so far.
        return self.start + bisect_right(clock, time_us)

    def check(self, event: int) -> None:
        """Raises UsageError when there is no such event."""
        last = self.start + self.events
        if not self.start <= event <= last:
            there = f"{self.first_event} to {last}" if self.events else "none"
            raise UsageError(f"device {self.device} has no event {event}; its events: {there}")


def _contradictions(blocks: _measures.Blocks) -> int:
    """How many allocations and final blocks are not where, or not as large as, the rules say."""
    return blocks.misplaced + blocks.end_misfits


def _spelled(key: object) -> str:
    return f"{key[0]}:{key[1]}" if isinstance(key, tuple) else str(key)
