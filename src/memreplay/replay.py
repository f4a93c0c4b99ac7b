"""One device's trace, replayed: usage over events, the peak, lifetimes, and the live set at any
moment."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from memreplay import _core, _timeline
from memreplay.errors import UsageError
from memreplay.model import By, Lifetimes, LiveSet, PeakPoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Replay:
    """The requested bytes of one device, exact from the baseline on.

    Sizes are requested sizes, so `usage` is the allocator's `requested_bytes.all.current` after
    each event, `peak.bytes` its peak over the recording. Event indices count from the device's
    first event; -1 is the start, before it. Where a range was read they still do: its events are
    `first_event` to `first_event + events - 1`, its start is `first_event - 1`, and its baseline
    what was live then.
    """

    def __init__(self, native: _timeline.Replay) -> None:
        self.native = native
        self.requested = _timeline.requested_measure(native)

    def __repr__(self) -> str:
        return f"<Replay of device {self.device}: {self.events} events, {self.peak}>"

    @property
    def device(self) -> int:
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
    def baseline_bytes(self) -> int:
        """What was live before the first event."""
        return self.native.baseline_bytes

    @property
    def final_bytes(self) -> int:
        """What is live after the last event."""
        return self.native.final_bytes

    @property
    def reconciliation_bytes(self) -> int | None:
        """`final_bytes` less what the segments' active blocks hold: 0 when the two agree.

        None where the range that was read ends before the trace does.
        """
        if not self.native.reaches_end:
            return None
        return self.native.final_bytes - self.native.segment_requested_bytes

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

    @cached_property
    def peak(self) -> PeakPoint:
        """The maximum of usage, and the first event after which it is reached."""
        event = self.native.peak_event + self.first_event
        return PeakPoint(self.native.peak_bytes, event, self.time_us(event))

    def time_us(self, event: int) -> int | None:
        """The time of an event (the first one's for the start); None where the file has none.

        Raises UsageError for an event that is not there.
        """
        self._check(event)
        if self.events == 0:
            return None
        row = self.native.first_row + max(event - self.first_event, 0)
        column = self.native.tables.column("time")
        value: int = column if isinstance(column, int) else memoryview(column)[row]
        return None if value == _core.ABSENT_TIME else value

    @cached_property
    def usage(self) -> NDArray[np.int64]:
        """Requested bytes live after each event; shape (events,), int64, read-only."""
        import numpy as np

        return np.asarray(self.requested.usage())

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Every allocation of the trace, then the baseline's blocks, with when it began and
        ended."""
        import numpy as np

        tables, first = self.native.tables, self.native.first_row
        rows = slice(first, first + self.events)
        match = np.asarray(self.native.match())
        allocs = np.flatnonzero(np.asarray(tables.column("action"))[rows] == 0)
        ends = np.concatenate([match[allocs], np.asarray(self.native.baseline("end"))])
        baseline = len(ends) - len(allocs)
        return Lifetimes(
            alloc_event=np.concatenate(
                [allocs + self.first_event, np.full(baseline, -1, dtype=np.int64)]
            ),
            free_event=np.where(
                ends == _core.ABSENT_ID, -1, ends.astype(np.int64) + self.first_event
            ),
            **self._columns(allocs, np.arange(baseline)),
        )

    def live_at(self, *, event: int | None = None, time_us: int | None = None) -> LiveSet:
        """What is live after an event (`start`: at the start), or at a time (after the events up to
        it).

        Raises UsageError when there is no such event, when the file has no times, or when not
        exactly one of the two is given.
        """
        import numpy as np

        if (event is None) == (time_us is None):
            raise UsageError("live_at() takes either event= or time_us=")
        if time_us is not None:
            event = self.event_at(time_us)
        assert event is not None
        self._check(event)
        allocs, baseline = (np.asarray(c) for c in self.requested.live(event - self.first_event))
        columns = self._columns(allocs, baseline)
        return LiveSet(
            device=self.device,
            event_index=event,
            bytes=int(columns["size"].sum()),
            alloc_event=np.concatenate(
                [
                    allocs.astype(np.int64) + self.first_event,
                    np.full(len(baseline), -1, dtype=np.int64),
                ]
            ),
            **columns,
        )

    def event_at(self, time_us: int) -> int:
        """The last event before the first one that is later than `time_us`; else the start.

        Raises UsageError when events have no times.
        """
        import numpy as np

        column = self.native.tables.column("time")
        if isinstance(column, int):
            if column == _core.ABSENT_TIME and self.events:
                raise UsageError("this snapshot has no times; name an event instead")
            return self.start + (self.events if column <= time_us else 0)
        first = self.native.first_row
        times = np.asarray(column)[first : first + self.events]
        if self.events and times.max() == _core.ABSENT_TIME:
            raise UsageError("this device's events have no times; name an event instead")
        # Order is by index, never by time: an event's moment is the latest time seen so far.
        at = int(np.searchsorted(np.maximum.accumulate(times), time_us, side="right"))
        return self.start + at

    def groups(
        self, event: int, by: By, file_rank: bytes, function_rank: bytes, top: int
    ) -> tuple[list[tuple[int, int, int]], int, int, int]:
        """The live set after `event` grouped natively; see `_core.Replay.groups`."""
        self._check(event)
        return self.requested.groups(event - self.first_event, by, file_rank, function_rank, top)

    def _columns(self, allocs: NDArray[Any], baseline: NDArray[Any]) -> dict[str, Any]:
        """address, size and stack of these allocations and baseline blocks."""
        import numpy as np

        tables, first = self.native.tables, self.native.first_row
        return {
            name: np.concatenate(
                [
                    np.asarray(tables.column(name))[first : first + self.events][allocs],
                    np.asarray(self.native.baseline(name))[baseline],
                ]
            )
            for name in ("address", "size", "stack")
        }

    def _check(self, event: int) -> None:
        last = self.start + self.events
        if not self.start <= event <= last:
            there = f"{self.first_event} to {last}" if self.events else "none"
            raise UsageError(f"device {self.device} has no event {event}; its events: {there}")
