"""The recorded allocator's results, which are the basis for simulating it."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.snapshot.alloc_conf import AllocatorSettings, spelled
from memreplay.snapshot.brief import html_table
from memreplay.snapshot.once import Once, once
from memreplay.snapshot.record import Record
from memreplay.snapshot.staying import Staying

if TYPE_CHECKING:
    from memreplay.engine.simulate._simulating import Changed, Simulation
    from memreplay.snapshot.measured import Measured, MeasuredTrace

SMALL_SEGMENT = 2 << 20
MOST_BYTES = 1 << 61  # the largest card's memory that fits the engine's integers
# An expandable segment reserves 9/8 of the card's memory as address space. If the card's memory is
# unknown, this size is assumed.
UNKNOWN_CARD = 80 << 30
# more memory than any card has, but small enough for many segments of this size in the address
# space
MOST_SPACE = 1 << 46


class Outcome(Record, frozen=True, kw_only=True):
    """How an allocator served a program."""

    reserved_peak_bytes: int
    """Peak of reserved bytes."""
    reserved_peak_event: int
    """The first event after which reserved bytes are this high; `first_event` - 1 is the start. In
    a simulation, it's the event of the request that led to the peak.
    """
    requested_peak_bytes: int
    """Peak of requested bytes."""
    requested_peak_event: int
    """The first event after which requested bytes are this high."""
    active_peak_bytes: int
    """Peak of active bytes, that is, of blocks in use, including those with a pending free."""
    active_peak_event: int
    """The first event after which active bytes are this high."""
    unused_bytes: int
    """`reserved_peak_bytes` - `active_peak_bytes`, at least 0. The two peaks may be at different
    events.
    """
    segments: int
    """Number of segments at the end. Each mapped range of an expandable segment counts."""
    driver_allocs: int
    """How often the driver provided memory, for new segments and mapped ranges."""
    driver_frees: int
    """How often memory was returned to the driver."""
    alloc_retries: int
    """How often the allocator returned all cached memory and called the driver again
    (`num_alloc_retries`).
    """
    oom_count: int
    """Number of failed requests."""
    failed_event: int | None
    """The first failed request's event; null if none failed."""


class Edit(Struct, frozen=True):
    """A change to the program.

    `chosen` is a usage limited to some allocations (`Usage.only`), in requested bytes. Their sizes
    are multiplied by `factor`; 0 drops them. With `twice`, each allocation is freed as soon as the
    next one has been made. As with checkpointing, it's allocated again just before the last
    allocation that precedes its end. `changed` is any other change.
    """

    chosen: Measured | None
    factor: float = 1.0
    twice: bool = False
    changed: Changed | None = None

    def prepare(self) -> None:
        """Compute the data that all simulations of this change share."""
        if self.chosen is not None:
            _ = self.chosen.native


class Card(Struct, frozen=True):
    """Memory limits in bytes; None means unlimited.

    `total`: memory that the driver has for the process; `allowed`: the part that the process may
    use; `card`: the whole card. `reuses`: whether the driver reuses addresses.
    """

    total: int | None
    allowed: int | None
    card: int | None
    reuses: bool


class Recorded(Staying):
    """The recorded allocator's results, and conclusions about the card.

    All instances for a replay share their cached results, which the replay keeps, as with
    `Measured`.
    """

    __slots__ = ("__dict__", "__weakref__", "replay")

    def __init__(self, replay: MeasuredTrace) -> None:
        self.replay = replay
        self.__dict__ = replay.recorded_allocator

    @property
    def settings(self) -> AllocatorSettings:
        """The recording's settings."""
        return self.replay.settings

    @once
    def _made(self) -> Once[tuple[int | None, bool], Simulation]:
        return Once()

    def __repr__(self) -> str:
        return f"<Recorded: {spelled(self.settings) or 'default settings'}, {self.outcome}>"

    def _repr_html_(self) -> str:
        rows = [("settings", spelled(self.settings)), ("outcome", self.outcome)]
        return html_table("Recorded", rows)

    @once
    def _seen(self) -> dict[int, int]:
        """Map each failed request's event to reserved plus free bytes at that time."""
        reserved = self.replay.measure("reserved")
        return {
            event: max(0, min(reserved.bytes_at(event) + free, MOST_BYTES))
            for event, free in self.replay.oom_free.items()
        }

    @once
    def program_memory_bytes(self) -> int | None:
        """Memory that the driver had for this process; None if unknown.

        If no request failed but some were retried, this is just below the total that the retried
        requests needed.
        """
        if self._seen:
            return max(*self._seen.values(), self.replay.measure("reserved").peak.bytes)
        return self._wanted if self.total_inferred else self.usable_bytes

    @property
    def likely_total(self) -> int | None:
        """What `program_memory_bytes` is for most recordings, determined without a simulation."""
        return self.program_memory_bytes if self._seen else self.usable_bytes

    @once
    def usable_bytes(self) -> int | None:
        """Memory that the program could use on the recording's card; None if the card
        wasn't noted.
        """
        card = self.replay.card_bytes
        return None if card is None else self.usable_of(card)

    def usable_of(self, card_bytes: int) -> int:
        """Return how much memory the program could use on the recording's card, which has this
        size.

        The result is at least as much as was reserved.
        """
        peak = self.replay.measure("reserved").peak.bytes
        return max(self.replay.usable_bytes(card_bytes), min(peak, card_bytes))

    @property
    def is_simulated(self) -> bool:
        """Whether the recording's own settings were simulated."""
        return "own" in self.__dict__

    @once
    def total_inferred(self) -> bool:
        """Whether `program_memory_bytes` is only inferred from the recording."""
        return not self._seen and self._wanted is not None

    @once
    def _wanted(self) -> int | None:
        """Return the most memory that the driver can have had, judging by retried requests.

        None if there were no retries.
        """
        found = self._own(self.usable_bytes, reuses=False)
        if found.recorded_shortfall is None or _likeness(found)[0]:
            return None
        peak = self.replay.measure("reserved").peak.bytes
        most = max(found.recorded_shortfall - 1, peak)
        # With expandable segments, less memory may have been needed as long as pending memory
        # wasn't free.
        if _likeness(self._own(most, reuses=False))[0]:
            return most
        return peak if _likeness(self._own(peak, reuses=False))[0] else most

    @once
    def allowed_bytes(self) -> int | None:
        """The process's memory limit, or if requests failed while memory was free, a lower bound
        for it.

        None if the process may use the whole card.
        """
        if self.settings.memory_fraction is not None and self.replay.card_bytes is not None:
            return int(self.settings.memory_fraction * self.replay.card_bytes)
        for event, free in self.replay.oom_free.items():
            request = self.replay.value("size", event)
            if free >= segment_bytes(max(request, 0), self.settings) + SMALL_SEGMENT:
                return self.replay.measure("reserved").peak.bytes
        return None

    @once
    def allowed_inferred(self) -> bool:
        """Whether `allowed_bytes` is only inferred from the recording."""
        known = self.settings.memory_fraction is not None and self.replay.card_bytes is not None
        return self.allowed_bytes is not None and not known

    @once
    def outcome(self) -> Outcome:
        """The outcome in the recording."""
        replay = self.replay
        reserved, active = replay.measure("reserved"), replay.measure("active")
        requested = replay.measure("requested")
        actions = {
            name: len(replay.events_of(name))
            for name in ("segment_alloc", "segment_map", "segment_free", "segment_unmap", "oom")
        }
        segments = self.own.mapped_ranges
        if replay.reaches_end:
            segments = replay.tally.segments
        return Outcome(
            reserved_peak_bytes=reserved.peak.bytes,
            reserved_peak_event=reserved.peak.event_index,
            requested_peak_bytes=requested.peak.bytes,
            requested_peak_event=requested.peak.event_index,
            active_peak_bytes=active.peak.bytes,
            active_peak_event=active.peak.event_index,
            unused_bytes=unused_bytes(replay),
            segments=segments,
            driver_allocs=actions["segment_alloc"] + actions["segment_map"],
            driver_frees=actions["segment_free"] + actions["segment_unmap"],
            # Prefer the simulation, because events don't always show why segments were released.
            alloc_retries=self.own.retries if self.reproduced else self.own.recorded_retries,
            oom_count=actions["oom"],
            failed_event=next(iter(replay.events_of("oom")), None),
        )

    @once
    def limit_bytes(self) -> int:
        """Reserved bytes above which memory ran out.

        The driver's memory or the process's limit if known, else the most memory that was ever
        reserved.
        """
        seen = max(self._seen.values(), default=None)
        found = [one for one in (self.allowed_bytes, seen) if one]
        peak = self.replay.measure("reserved").peak.bytes
        return max(min(found, default=peak), peak)

    @once
    def collect_from(self) -> int | None:
        """Reserved bytes above which cached memory was collected; None for never."""
        return _collect_from(self.settings, self.allowed_bytes)

    @once
    def own(self) -> Simulation:
        """A simulation with the recording's own settings, including a log.

        Among free blocks of equal size, newer versions of PyTorch take the one in the oldest
        segment, older versions the one at the lowest address. Files don't say which version wrote
        them, so the variant that matches the recording is used, or the first one if neither does.
        """
        found = self._own(self.program_memory_bytes, reuses=False)
        if _likeness(found) != (True, 0):
            found = max(found, self._own(self.program_memory_bytes, reuses=True), key=_likeness)
        self._made.clear()
        return found

    def _own(self, total: int | None, *, reuses: bool) -> Simulation:
        def make() -> Simulation:
            card = Card(total, self.allowed_bytes, self.replay.card_bytes, reuses)
            return run(self, self.settings, card, keeping=Keeping(log=True, alike=reuses))

        return self._made.get((total, reuses), make)

    @once
    def reproduced(self) -> bool:
        """Whether `own` reproduces the recorded segment events: their kinds, order and sizes."""
        return _likeness(self.own)[0]


class Keeping(Struct, frozen=True):
    """What to keep of a simulation in addition to its outcome: a `log` of driver calls, or the
    `trace` that a recording of the simulation would have. `alike`: stop at the first driver call
    that differs from the recording's.
    """

    log: bool = False
    trace: bool = False
    alike: bool = False


def run(
    recorded: Recorded,
    settings: AllocatorSettings,
    card: Card,
    edit: Edit | None = None,
    keeping: Keeping = Keeping(),  # noqa: B008 - it doesn't change
) -> Simulation:
    """Run the engine's simulation of the recorded program."""
    from memreplay.engine.simulate import _simulating

    replay = recorded.replay
    collect_from = _collect_from(settings, card.allowed)
    known = card.card or card.total or UNKNOWN_CARD
    return _simulating.Simulation(
        replay.blocks,
        replay.holding,
        divisions=settings.divisions,
        max_split=settings.max_split_bytes,
        max_non_split=settings.max_non_split_bytes,
        large_segment=settings.large_segment_bytes,
        expandable=settings.expandable,
        total=-1 if card.total is None else card.total,
        allowed=-1 if card.allowed is None else card.allowed,
        collect_from=-1 if collect_from is None else collect_from,
        space=min(known + known // 8, MOST_SPACE),
        reuses=card.reuses,
        recorded_limit=recorded.limit_bytes,
        recorded_collect_from=-1 if recorded.collect_from is None else recorded.collect_from,
        recorded_handle=replay.settings.large_segment_bytes,
        edited=None if edit is None or edit.chosen is None else edit.chosen.native,
        factor=1.0 if edit is None else edit.factor,
        twice=edit is not None and edit.twice,
        changed=None if edit is None else edit.changed,
        log=keeping.log,
        trace=keeping.trace,
        stop_at_difference=keeping.alike,
    )


def _collect_from(settings: AllocatorSettings, allowed: int | None) -> int | None:
    """Return the level in bytes above which cached memory is collected. PyTorch only collects if
    the process has a memory limit.
    """
    if settings.collect_threshold <= 0 or allowed is None:
        return None
    return int(settings.collect_threshold * allowed)


def _likeness(own: Simulation) -> tuple[bool, int]:
    """Return whether the segment events match the recording, and the negated number of misplaced
    blocks.
    """
    equal, recorded, simulated = own.reproduced
    is_alike = equal == recorded == simulated and own.stopped_at is None
    return is_alike, -own.misplaced if is_alike else 0


def unused_bytes(replay: MeasuredTrace) -> int:
    """Return how far peak reserved is above peak active bytes.

    The two peaks may be at different times. At least 0, because more may be active if segment
    events are missing. "Unused" always has this meaning; memory that is free at a moment is called
    free.
    """
    reserved, active = replay.measure("reserved").peak, replay.measure("active").peak
    return max(0, reserved.bytes - active.bytes)


def fullest(replay: MeasuredTrace) -> int:
    """Return the event with the most active bytes while reserved memory is at its first peak.

    Before this event, the memory that was reserved last isn't in use yet.
    """
    peak = replay.measure("reserved").peak.event_index
    # After its peak, reserved memory can only fall.
    changes = memoryview(replay.reserved.events())
    after = bisect_right(changes, peak - replay.first_event)
    last = replay.start + replay.events
    if after < len(changes):
        last = changes[after] + replay.start
    return replay.measure("active").highest(peak, last).event_index


def segment_bytes(request: int, settings: AllocatorSettings) -> int:
    """Return the size of the segment that a request of this size creates.

    For expandable segments, the result is an upper bound, because they can use free memory at their
    end.
    """
    from memreplay.engine.simulate import _simulating

    return _simulating.segment_bytes(
        request, large_segment=settings.large_segment_bytes, expandable=settings.expandable
    )
