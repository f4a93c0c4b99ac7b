"""A device's replay, and each of its measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from memreplay.errors import UsageError
from memreplay.snapshot.backends import CUDA
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


SMALLEST_BLOCK = 512


class Noted(Struct, frozen=True):
    """The notes that a recorder made about a card."""

    bytes: int | None = None
    """Total memory."""
    name: str | None = None
    """Result of torch.cuda.get_device_name()."""
    context_bytes: int | None = None
    """Memory that wasn't available to the program, if noted."""
    measured: bool = False
    """Whether `context_bytes` was measured on a card; dry runs estimate it."""


class Unexplained(Struct, frozen=True):
    """Carried-over blocks that are live at the end, final segments without an event, and the bytes
    that the blocks requested. Also how many blocks and segments have a stack, which only a
    recording sets.
    """

    blocks: int
    recorded_blocks: int
    segments: int
    recorded_segments: int
    bytes: int
    recorded_bytes: int


class Replay(MeasuredTrace):
    """One device's requested bytes, which are exact and include memory from before the recording.

    Sizes are requested sizes, so `usage` is the allocator's `requested_bytes.all.current` after
    each event, and `peak.bytes` its peak over the recording. Event indices count from the device's
    first event; -1 is the start. They don't change if only a range was read: the range's events are
    `first_event` to `first_event + events - 1`, its start is `first_event - 1`, and memory live
    then is carried over.
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
        self._measures: dict[tuple[object, ...], dict[str, Any]] = {}  # cached results

    def __repr__(self) -> str:
        return f"<Replay of device {self.device}: {self.events} events, {self.peak}>"

    def _repr_html_(self) -> str:
        rows = [("events", self.events), ("first_event", self.first_event), ("peak", self.peak)]
        from memreplay.snapshot.brief import html_table  # imported late: only for notebooks

        return html_table(f"Replay of device {self.device}", rows)

    def measure(
        self,
        name: MeasureName = "requested",
        *,
        pool: tuple[int, int] | None = None,
        stream: int | None = None,
    ) -> Usage:
        """Return one measure over the events, optionally only for one pool or stream.

        `requested`: requested bytes from alloc to free_completed. `held`: the same, but until
        free_requested. `active` and `allocated`: like `requested` and `held`, but in block bytes.
        `reserved`: segment bytes. docs/numbers.md lists PyTorch's corresponding statistics. Raises
        UsageError for an unknown name, pool or stream.
        """
        key = (name, pool, stream)
        found = self._measures.get(key)
        if found is None:
            if name not in MEASURES:
                raise UsageError(f"unknown measure {name!r}; available: {', '.join(MEASURES)}")
            found = self._measures.setdefault(key, Usage(self, name, pool, stream).__dict__)
        return Usage.again(self, found)

    @once
    def shows_reserved(self) -> bool:
        """Return whether the file has segments or segment events. If not, the measure `reserved` is
        always 0, and it isn't known how much memory was reserved.
        """
        return self.measure("reserved").peak.bytes > 0 or self.measure("active").peak.bytes == 0

    @once
    def origins_of_whole_blocks(self) -> set[int]:
        """Return the origins, as indices into `blocks.origins()`, of some carried-over blocks:
        those that are gone at the end and that requested a multiple of the smallest block size.
        """
        return self.blocks.origins_of_whole_blocks(SMALLEST_BLOCK)

    @once
    def unexplained(self) -> Unexplained:
        """Return the memory that no recorded event created."""
        return Unexplained(*self.reserved.unexplained())

    def forget(self) -> None:
        """Drop the cached measures. They are recomputed on access."""
        self._measures.clear()

    @property
    def peak(self) -> PeakPoint:
        """The maximum of requested bytes, and the first event after which it's reached."""
        return self.measure().peak

    @property
    def usage(self) -> NDArray[np.int64]:
        """Requested bytes live after each event; shape (events,), int64, read-only."""
        return self.measure().series

    @property
    def lifetimes(self) -> Lifetimes:
        """All allocations of the trace, then carried-over blocks, with their begin and end."""
        return self.measure().lifetimes

    def live_at(self, *, event: int | None = None, time_us: int | None = None) -> LiveSet:
        """Return the live set after an event or at a time, in requested bytes; see
        `Usage.live_at`.
        """
        return self.measure().live_at(event=event, time_us=time_us)

    @property
    def reconciliation_bytes(self) -> int | None:
        """`end_bytes` minus the requested bytes of the segments' active blocks; 0 if they agree.

        None if the range that was read ends before the trace.
        """
        return self.measure().reconciliation_bytes

    def block_map(self, event: int) -> _blockmap.BlockMap:
        """Return the segments and their blocks after an event (`start`: before the first).

        Raises UsageError if there is no such event.
        """
        from memreplay.engine.query import _blockmap

        live = self.measure("active").listed(event)
        return _blockmap.BlockMap(self.blocks, self.holding, *live, event - self.first_event)

    @property
    def card(self) -> Noted:
        """The recorder's notes about the card."""
        return self._card()

    @once
    def card_bytes(self) -> int | None:
        """The card's memory, if the recorder noted it."""
        return self.card.bytes

    def context_bytes(self, total_bytes: int) -> int:
        """Return how much memory CUDA takes on a card of this size.

        The result is the noted value if that's for this card, else an estimate by `snapshot.cards`.
        For backends other than CUDA, the amount isn't known, so the result is 0.
        """
        card = self.card
        if card.context_bytes is not None and total_bytes == card.bytes:
            return card.context_bytes
        if not self.backend.is_cuda:
            return 0
        # imported late, because it's rarely needed
        from memreplay.snapshot.cards import context_bytes

        return context_bytes(total_bytes, card.name, card.bytes)

    def context_measured(self, total_bytes: int) -> bool:
        """Return whether `context_bytes` was measured on this card, while recording."""
        return self.card.measured and total_bytes == self.card.bytes

    def usable_bytes(self, total_bytes: int) -> int:
        """Return the memory that a card of this size has for the program."""
        from memreplay.snapshot.cards import usable_bytes

        return usable_bytes(total_bytes, self.context_bytes(total_bytes))

    @property
    def recorded(self) -> Recorded:
        """The recorded allocator's results, and whether a simulation reproduces them."""
        from memreplay.snapshot.recorded_allocator import Recorded

        return Recorded(self)

    def simulate(
        self,
        settings: AllocatorSettings | str = "",
        *,
        program_memory: int | None = None,
        edit: Edit | None = None,
    ) -> Simulated:
        """Simulate the same program with other allocator settings, or on another card.

        `settings`: changes to the recording's settings, spelled as in PYTORCH_CUDA_ALLOC_CONF
        ("expandable_segments:True,max_split_size_mb:128"), or complete settings. `program_memory`:
        memory that the driver has for this process, i.e. the card's memory minus that of the CUDA
        context and other processes; None means the same as in the recording, which is unlimited if
        the file doesn't show a limit. `edit` changes the program itself. docs/simulate.md says what
        is exact. Raises UsageError for settings that PyTorch would reject.
        """
        from memreplay.snapshot.simulated import simulate

        return simulate(self, settings, program_memory, edit)


Narrow = Callable[["Usage", "_timeline.Measure"], "_timeline.Measure"]


class Usage(Measured):
    """A measure's bytes over one device's events.

    Returned by `Replay.measure`.

    Event indices are those of the whole trace; `Replay.start` is the state before it.
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
        """Return a usage with the cached results (`__dict__`) of another one of the same replay."""
        usage = cls.__new__(cls)
        usage.trace, usage.__dict__ = replay, found
        return usage

    @property
    def replay(self) -> Replay:
        """The replay that this usage belongs to."""
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
        from memreplay.snapshot.brief import html_table  # imported late: only for notebooks

        return html_table(f"Usage of device {self.replay.device}", told)

    def only(self, narrow: Narrow) -> Usage:
        """Return this measure limited to some allocations.

        Works for all measures except reserved. `narrow` gets the native measure and filters it.
        """

        def further(usage: Usage, found: _timeline.Measure) -> _timeline.Measure:
            return narrow(usage, self._narrowed(found))

        return Usage(self.replay, self.measure, self.pool, self.stream, further)

    @property
    def _is_whole(self) -> bool:
        return super()._is_whole and self._narrow is None

    def _narrowed(self, found: _timeline.Measure) -> _timeline.Measure:
        return found if self._narrow is None else self._narrow(self, found)
