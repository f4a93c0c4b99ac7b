"""One device's trace with its measures: a replay, and each measure of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from memreplay.errors import UsageError
from memreplay.snapshot.backends import CUDA
from memreplay.snapshot.brief import html_table
from memreplay.snapshot.measured import Measured, MeasuredTrace
from memreplay.snapshot.model import MEASURES, Lifetimes, LiveSet, MeasureName, PeakPoint
from memreplay.snapshot.once import once

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memreplay.engine.query import _blockmap
    from memreplay.engine.replay import _timeline
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.backends import Backend
    from memreplay.snapshot.recorded_allocator import Edit, Recorded
    from memreplay.snapshot.simulated import Simulated


class Noted(Struct, frozen=True):
    """What a recorder wrote of a card."""

    bytes: int | None = None
    """All of its memory."""
    name: str | None = None
    """What torch.cuda.get_device_name() calls it."""
    context_bytes: int | None = None
    """What of that the program did not have, where this is no estimate."""


class Replay(MeasuredTrace):
    """The requested bytes of one device, exact, with those from before the recording.

    Sizes are requested sizes, so `usage` is the allocator's `requested_bytes.all.current` after
    each event, `peak.bytes` its peak over the recording. Event indices count from the device's
    first event; -1 is the start, before it. Where a range was read they still do: its events are
    `first_event` to `first_event + events - 1`, its start is `first_event - 1`, and
    what was live then is carried over.
    """

    def __init__(
        self,
        native: _timeline.Replay,
        settings: AllocatorSettings,
        card: Callable[[], Noted] = Noted,
        backends: Sequence[Backend] = (CUDA,),
    ) -> None:
        super().__init__(native, settings, backends)
        self._card = card
        self._measures: dict[tuple[object, ...], dict[str, Any]] = {}  # what they found

    def __repr__(self) -> str:
        return f"<Replay of device {self.device}: {self.events} events, {self.peak}>"

    def _repr_html_(self) -> str:
        rows = [("events", self.events), ("first_event", self.first_event), ("peak", self.peak)]
        return html_table(f"Replay of device {self.device}", rows)

    def measure(
        self,
        name: MeasureName = "requested",
        *,
        pool: tuple[int, int] | None = None,
        stream: int | None = None,
    ) -> Usage:
        """One measure over the events, of one pool or stream alone where that is given.

        `requested`: requested bytes from alloc to free_completed. `held`: the same to
        free_requested. `active` and `allocated`: these two in bytes of blocks. `reserved`: bytes of
        segments. docs/numbers.md says which statistic of PyTorch each one is. Raises UsageError for
        a name, pool or stream that is not there.
        """
        key = (name, pool, stream)
        found = self._measures.get(key)
        if found is None:
            if name not in MEASURES:
                raise UsageError(f"no measure is called {name!r}; there are: {', '.join(MEASURES)}")
            found = self._measures.setdefault(key, Usage(self, name, pool, stream).__dict__)
        return Usage.again(self, found)

    def forget(self) -> None:
        """Let go of the measures that `measure` remembers; it makes them anew."""
        self._measures.clear()

    @property
    def peak(self) -> PeakPoint:
        """The maximum of requested usage, and the first event after which it is reached."""
        return self.measure().peak

    @property
    def usage(self) -> NDArray[np.int64]:
        """Requested bytes live after each event; shape (events,), int64, read-only."""
        return self.measure().series

    @property
    def lifetimes(self) -> Lifetimes:
        """Every allocation of the trace, then the carried blocks, with when it began and
        ended."""
        return self.measure().lifetimes

    def live_at(self, *, event: int | None = None, time_us: int | None = None) -> LiveSet:
        """What is live after an event or at a time, in requested bytes; see `Usage.live_at`."""
        return self.measure().live_at(event=event, time_us=time_us)

    @property
    def reconciliation_bytes(self) -> int | None:
        """`end_bytes` less what the segments' active blocks hold: 0 when the two agree.

        None where the range that was read ends before the trace does.
        """
        return self.measure().reconciliation_bytes

    def block_map(self, event: int) -> _blockmap.BlockMap:
        """The segments and their blocks after an event (`start`: before the first).

        Raises UsageError when there is no such event.
        """
        from memreplay.engine.query import _blockmap

        live = self.measure("active").listed(event)
        return _blockmap.BlockMap(self.blocks, self.holding, *live, event - self.first_event)

    @property
    def card(self) -> Noted:
        """What the recorder noted of the card."""
        return self._card()

    @once
    def card_bytes(self) -> int | None:
        """The memory of the card, where the recorder noted it."""
        return self.card.bytes

    def context_bytes(self, total_bytes: int) -> int:
        """What CUDA itself takes of a card with so much memory: what was noted of that very card,
        else as `snapshot.cards` estimates it; 0 for other backends, of which nothing is known."""
        card = self.card
        if card.context_bytes is not None and total_bytes == card.bytes:
            return card.context_bytes
        if self.backend is not CUDA:
            return 0
        from memreplay.snapshot.cards import context_bytes  # late: few ask for it

        return context_bytes(total_bytes, card.name, card.bytes)

    def usable_bytes(self, total_bytes: int) -> int:
        """What a card with so much memory has for the program."""
        from memreplay.snapshot.cards import usable_bytes

        return usable_bytes(total_bytes, self.context_bytes(total_bytes))

    @property
    def recorded(self) -> Recorded:
        """What the recording's own allocator did, and whether simulating it gives the same."""
        from memreplay.snapshot.recorded_allocator import Recorded

        return Recorded(self)

    def simulate(
        self,
        settings: AllocatorSettings | str = "",
        *,
        total_bytes: int | None = None,
        edit: Edit | None = None,
    ) -> Simulated:
        """The same program on an allocator of other settings, or on another card.

        `settings` are those of the recording with what a text changes of them, spelled as
        PYTORCH_CUDA_ALLOC_CONF ("expandable_segments:True,max_split_size_mb:128"), or all of them.
        `total_bytes` is what the driver has for this process: the card's memory less what the CUDA
        context and other processes take; None for as much as in the recording, which is no limit
        where the file does not tell. `edit` changes the program itself. docs/simulate.md says what
        is exact and what is not.

        Raises UsageError for settings that PyTorch would not take.
        """
        from memreplay.snapshot.simulated import simulate

        return simulate(self, settings, total_bytes, edit)


Narrow = Callable[["Usage", "_timeline.Measure"], "_timeline.Measure"]


class Usage(Measured):
    """A measure's bytes over the events of one device. Made by `Replay.measure`.

    Event indices are those of the whole trace; `Replay.start` stands for the start.
    """

    def __init__(
        self,
        replay: Replay,
        measure: MeasureName,
        pool: tuple[int, int] | None = None,
        stream: int | None = None,
        narrow: Narrow | None = None,
    ) -> None:
        super().__init__(replay, measure, pool, stream)
        self._narrow = narrow

    @classmethod
    def again(cls, replay: Replay, found: dict[str, Any]) -> Usage:
        """One that shares what another of the same replay has found, its `__dict__`."""
        usage = cls.__new__(cls)
        usage.trace, usage.__dict__ = replay, found
        return usage

    @property
    def replay(self) -> Replay:
        """Whose events they are."""
        assert isinstance(self.trace, Replay)
        return self.trace

    def __repr__(self) -> str:
        return f"<Usage of device {self.replay.device}: {self.measure}, {self.peak}>"

    def _repr_html_(self) -> str:
        rows = [
            ("measure", self.measure),
            ("pool", self.pool),
            ("stream", self.stream),
            ("start_bytes", self.start_bytes),
            ("peak", self.peak),
            ("end_bytes", self.end_bytes),
        ]
        told = [row for row in rows if row[1] is not None]
        return html_table(f"Usage of device {self.replay.device}", told)

    def only(self, narrow: Narrow) -> Usage:
        """The same measure of some allocations alone: `narrow` is given this measure, natively, and
        leaves them in it. Not for reserved memory."""

        def further(usage: Usage, found: _timeline.Measure) -> _timeline.Measure:
            return narrow(usage, self._narrowed(found))

        return Usage(self.replay, self.measure, self.pool, self.stream, further)

    @property
    def _is_whole(self) -> bool:
        return super()._is_whole and self._narrow is None

    def _narrowed(self, found: _timeline.Measure) -> _timeline.Measure:
        return found if self._narrow is None else self._narrow(self, found)
