"""What a recording's own allocator did, and what simulations of it are made of."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from memreplay.snapshot.alloc_conf import AllocatorSettings, spelled
from memreplay.snapshot.brief import html_table
from memreplay.snapshot.once import Once, once
from memreplay.snapshot.record import Record
from memreplay.snapshot.staying import Staying

if TYPE_CHECKING:
    from memreplay.engine.simulate._simulating import Simulation
    from memreplay.snapshot.measured import Measured, MeasuredTrace

SMALL_SEGMENT = 2 << 20
MOST_BYTES = 1 << 61  # of a card: what the engine counts in has room for it
# What an expandable segment has addresses for is 9/8 of the card; so much where nobody knows that.
UNKNOWN_CARD = 80 << 30
MOST_SPACE = 1 << 46  # more than any card has, and many of them have room beside each other


class Outcome(Record, frozen=True, kw_only=True):
    """What an allocator made of a program."""

    reserved_peak_bytes: int
    """Most that was reserved."""
    reserved_peak_event: int
    """The first event after which it was; `first_event` - 1 is the start. Of a simulation the
    request that led to it."""
    requested_peak_bytes: int
    """Most that the program had asked for and not had freed."""
    requested_peak_event: int
    """The first event after which it had."""
    active_peak_bytes: int
    """Most that its blocks in use took, those included whose free was pending."""
    active_peak_event: int
    """The first event after which they did."""
    unused_bytes: int
    """`reserved_peak_bytes` less `active_peak_bytes`, 0 at least: what was reserved and never
    needed."""
    segments: int
    """Segments at the end; of an expandable one each mapped range."""
    driver_allocs: int
    """How often the driver gave memory: segments made, and ranges mapped."""
    driver_frees: int
    """How often it got memory back."""
    alloc_retries: int
    """How often it was asked again after all cached memory was given back (`num_alloc_retries`)."""
    ooms: int
    """How many requests failed."""
    failed_event: int | None
    """The event of the first request that failed; null if none did."""


class Edit(NamedTuple):
    """A change of the program itself: of some of its allocations.

    `chosen` is a usage of these alone (`Usage.only`), of requested bytes. Their sizes are
    multiplied by `factor`; 0 leaves them out. With `twice` each goes as soon as the next allocation
    has been made, and comes back before the last one ahead of its end: what checkpointing does.
    """

    chosen: Measured
    factor: float = 1.0
    twice: bool = False

    def prepare(self) -> None:
        """Make what all simulations of it share."""
        _ = self.chosen.native


class Card(NamedTuple):
    """What an allocator may have, in bytes; None where there is no limit.

    `total` is what the driver has for the process, `allowed` what it may have of that, `card` all
    of the card's. `reuses`: whether the driver gives addresses again that it got back.
    """

    total: int | None
    allowed: int | None
    card: int | None
    reuses: bool


class Recorded(Staying):
    """What a recording's own allocator did, and what it says of the card.

    All of a replay share what they have found; it is kept there, as that of a `Measured` is.
    """

    __slots__ = ("__dict__", "__weakref__", "replay")

    def __init__(self, replay: MeasuredTrace) -> None:
        self.replay = replay
        self.__dict__ = replay.recorded_allocator

    @property
    def settings(self) -> AllocatorSettings:
        """Those of the recording."""
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
        """What was reserved and free at each request that failed, by its event."""
        reserved = self.replay.measure("reserved")
        return {
            event: max(0, min(reserved.bytes_at(event) + free, MOST_BYTES))
            for event, free in self.replay.oom_free.items()
        }

    @once
    def total_bytes(self) -> int | None:
        """What the driver had for this process; None where nobody knows. Where no request failed
        and some were asked again, it is just less than they wanted."""
        if self._seen:
            return max(*self._seen.values(), self.replay.measure("reserved").peak.bytes)
        return self._wanted if self.total_inferred else self.usable_bytes

    @property
    def likely_total(self) -> int | None:
        """`total_bytes` of most recordings, which takes no simulation to tell."""
        return self.total_bytes if self._seen else self.usable_bytes

    @once
    def usable_bytes(self) -> int | None:
        """What the recording's card had for the program; None if nobody noted the card."""
        card = self.replay.card_bytes
        return None if card is None else self.usable_of(card)

    def usable_of(self, card_bytes: int) -> int:
        """What the recording's card had for the program if it has so much memory. What was
        reserved on it, it had."""
        peak = self.replay.measure("reserved").peak.bytes
        return max(self.replay.usable_bytes(card_bytes), min(peak, card_bytes))

    @property
    def is_simulated(self) -> bool:
        """Whether its own settings have been simulated."""
        return "own" in self.__dict__

    @once
    def total_inferred(self) -> bool:
        """Whether `total_bytes` is no more than what the recording shows."""
        return not self._seen and self._wanted is not None

    @once
    def _wanted(self) -> int | None:
        """What the driver had at most where requests were asked again and it is not known to
        have had less; None where none were."""
        found = self._own(self.usable_bytes, reuses=False)
        if found.recorded_want is None or _likeness(found)[0]:
            return None
        peak = self.replay.measure("reserved").peak.bytes
        most = max(found.recorded_want - 1, peak)
        # Expandable segments may have wanted less, before what they waited for was free.
        if _likeness(self._own(most, reuses=False))[0]:
            return most
        return peak if _likeness(self._own(peak, reuses=False))[0] else most

    @once
    def allowed_bytes(self) -> int | None:
        """What the process might have of the card where requests failed while memory was free: at
        least this. None where it might have all."""
        if self.settings.memory_fraction is not None and self.replay.card_bytes is not None:
            return int(self.settings.memory_fraction * self.replay.card_bytes)
        for event, free in self.replay.oom_free.items():
            request = self.replay.value("size", event)
            if free >= segment_bytes(max(request, 0), self.settings) + SMALL_SEGMENT:
                return self.replay.measure("reserved").peak.bytes
        return None

    @once
    def allowed_inferred(self) -> bool:
        """Whether `allowed_bytes` is no more than what the recording shows."""
        known = self.settings.memory_fraction is not None and self.replay.card_bytes is not None
        return self.allowed_bytes is not None and not known

    @once
    def outcome(self) -> Outcome:
        """What the recording says."""
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
            # Of what goes its events do not always tell why.
            alloc_retries=self.own.retries if self.reproduced else self.own.recorded_retries,
            ooms=actions["oom"],
            failed_event=next(iter(replay.events_of("oom")), None),
        )

    @once
    def limit_bytes(self) -> int:
        """Above so many reserved bytes the process was in want of memory: what the driver had or
        the process might have, where that is known, and what it had where not."""
        seen = max(self._seen.values(), default=None)
        found = [one for one in (self.allowed_bytes, seen) if one]
        peak = self.replay.measure("reserved").peak.bytes
        return max(min(found, default=peak), peak)

    @once
    def collect_from(self) -> int | None:
        """Above so many reserved bytes cached memory was collected; None for never."""
        return _collect_from(self.settings, self.allowed_bytes)

    @once
    def own(self) -> Simulation:
        """The recording's own settings, simulated, with a log.

        Of free blocks of one size newer versions of PyTorch take that of the oldest segment, and
        older ones that of the lowest address. No file says which: what is as in the recording is
        right, and where neither is the first.
        """
        found = self._own(self.total_bytes, reuses=False)
        if _likeness(found) != (True, 0):
            found = max(found, self._own(self.total_bytes, reuses=True), key=_likeness)
        self._made.clear()  # the others are not needed again
        return found

    def _own(self, total: int | None, *, reuses: bool) -> Simulation:
        def make() -> Simulation:
            card = Card(total, self.allowed_bytes, self.replay.card_bytes, reuses)
            return run(self.replay, self.settings, card, self, log=True, alike=reuses)

        return self._made.get((total, reuses), make)

    @once
    def reproduced(self) -> bool:
        """Whether that gives the recorded segment events again, in kind, order and size."""
        return _likeness(self.own)[0]


def run(
    replay: MeasuredTrace,
    settings: AllocatorSettings,
    card: Card,
    recorded: Recorded,
    *,
    edit: Edit | None = None,
    log: bool = False,
    trace: bool = False,
    alike: bool = False,
) -> Simulation:
    """The engine's simulation. With `alike` it ends where the driver is asked for something else
    than in the recording."""
    from memreplay.engine.simulate import _simulating

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
        edited=None if edit is None else edit.chosen.native,
        factor=1.0 if edit is None else edit.factor,
        twice=edit is not None and edit.twice,
        log=log,
        trace=trace,
        alike=alike,
    )


def _collect_from(settings: AllocatorSettings, allowed: int | None) -> int | None:
    """PyTorch collects where a part of the memory is set, and not elsewhere."""
    if settings.collect_threshold <= 0 or allowed is None:
        return None
    return int(settings.collect_threshold * allowed)


def _likeness(own: Simulation) -> tuple[bool, int]:
    """Whether the segment events are those of the recording, and how few blocks lie elsewhere."""
    equal, recorded, simulated = own.reproduced
    is_alike = equal == recorded == simulated and own.stopped_at is None
    return is_alike, -own.misplaced if is_alike else 0


def unused_bytes(replay: MeasuredTrace) -> int:
    """What was reserved at most and never needed: the peak of reserved bytes less that of active
    ones, whenever each is. 0 at least: where segment events are missing, more may be active.

    This is the one meaning of "unused"; what is free at one moment is called free.
    """
    reserved, active = replay.measure("reserved").peak, replay.measure("active").peak
    return max(0, reserved.bytes - active.bytes)


def fullest(replay: MeasuredTrace) -> int:
    """The event after which most is active while reserved memory is at its peak, the first time
    that it is: before that the memory that was asked for last is not in use yet."""
    peak = replay.measure("reserved").peak.event_index
    # From its peak on it can only fall.
    changes = memoryview(replay.reserved.events())
    after = bisect_right(changes, peak - replay.first_event)
    last = replay.start + replay.events
    if after < len(changes):
        last = changes[after] + replay.start
    return replay.measure("active").highest(peak, last).event_index


def segment_bytes(request: int, settings: AllocatorSettings) -> int:
    """What the driver is asked for, for a request of so many bytes; of expandable segments, which
    grow from free memory at their end, at most."""
    from memreplay.engine.simulate import _simulating

    return _simulating.segment_bytes(
        request, large_segment=settings.large_segment_bytes, expandable=settings.expandable
    )
