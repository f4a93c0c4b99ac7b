"""A recorded program on an allocator of other settings, or on another card."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from memreplay.errors import UsageError
from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings, spelled
from memreplay.snapshot.brief import html_table
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.engine.simulate._simulating import Simulation
    from memreplay.snapshot.measured import Measured, MeasuredTrace

SimulationReason = Literal[
    "began_with_memory",
    "came_back_late",
    "limit_inferred",
    "not_reproduced",
    "request_succeeds",
    "start_too_large",
    "start_unplaced",
    "total_inferred",
]

SMALL_LIMIT, SMALL_SEGMENT = 1 << 20, 2 << 20
LARGE_REQUEST = 10 << 20
# What an expandable segment has addresses for where nobody knows the card: 9/8 of its memory.
UNKNOWN_CARD = 80 << 30


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
    """What was reserved and not active at the peak of reserved bytes, at best: where most was
    active before that changed."""
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


class Recorded:
    """What a recording's own allocator did, and what it says of the card. Made once a replay."""

    def __init__(self, replay: MeasuredTrace) -> None:
        self.replay = replay
        self.settings = replay.settings
        self._made: dict[tuple[int | None, bool], Simulation] = {}

    @cached_property
    def _seen(self) -> dict[int, int]:
        """What was reserved and free at each request that failed, by its event."""
        reserved = self.replay.measure("reserved")
        return {
            event: reserved.bytes_at(event) + free for event, free in self.replay.oom_free.items()
        }

    @cached_property
    def total_bytes(self) -> int | None:
        """What the driver had for this process; None where nobody knows. Where no request failed
        and some were asked again, it is just less than they wanted."""
        if self._seen:
            return max(*self._seen.values(), self.replay.measure("reserved").peak.bytes)
        return self._wanted if self.total_inferred else self.replay.card_bytes

    @cached_property
    def total_inferred(self) -> bool:
        """Whether `total_bytes` is no more than what the recording shows."""
        return not self._seen and self._wanted is not None

    @cached_property
    def _wanted(self) -> int | None:
        """What the driver had at most where requests were asked again and it is not known to
        have had less; None where none were."""
        found = self._own(self.replay.card_bytes, reuses=False)
        if found.recorded_want is None or _likeness(found)[0]:
            return None
        peak = self.replay.measure("reserved").peak.bytes
        most = max(found.recorded_want - 1, peak)
        # Expandable segments may have wanted less, before what they waited for was free.
        if _likeness(self._own(most, reuses=False))[0]:
            return most
        return peak if _likeness(self._own(peak, reuses=False))[0] else most

    @cached_property
    def allowed_bytes(self) -> int | None:
        """What the process might have of the card where requests failed while memory was free: at
        least this. None where it might have all."""
        if self.settings.memory_fraction is not None and self.replay.card_bytes is not None:
            return int(self.settings.memory_fraction * self.replay.card_bytes)
        for event, free in self.replay.oom_free.items():
            request = self.replay.value("size", event)
            if free >= _segment(request, self.settings) + SMALL_SEGMENT:
                return self.replay.measure("reserved").peak.bytes
        return None

    @cached_property
    def allowed_inferred(self) -> bool:
        """Whether `allowed_bytes` is no more than what the recording shows."""
        known = self.settings.memory_fraction is not None and self.replay.card_bytes is not None
        return self.allowed_bytes is not None and not known

    @cached_property
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
            # Below 0 where segment events are missing.
            unused_bytes=max(reserved.peak.bytes - active.bytes_at(fullest(replay)), 0),
            segments=segments,
            driver_allocs=actions["segment_alloc"] + actions["segment_map"],
            driver_frees=actions["segment_free"] + actions["segment_unmap"],
            # Of what goes its events do not always tell why.
            alloc_retries=self.own.retries if self.reproduced else self.own.recorded_retries,
            ooms=actions["oom"],
            failed_event=next(iter(replay.events_of("oom")), None),
        )

    @cached_property
    def limit_bytes(self) -> int:
        """Above so many reserved bytes the process was in want of memory: what the driver had or
        the process might have, where that is known, and what it had where not."""
        seen = max(self._seen.values(), default=None)
        found = [one for one in (self.allowed_bytes, seen) if one]
        peak = self.replay.measure("reserved").peak.bytes
        return max(min(found, default=peak), peak)

    @cached_property
    def collect_from(self) -> int | None:
        """Above so many reserved bytes cached memory was collected; None for never."""
        return _collect_from(self.settings, self.allowed_bytes)

    @cached_property
    def own(self) -> Simulation:
        """The recording's own settings, simulated, with a log.

        Of free blocks of one size newer versions of PyTorch take that of the oldest segment, and
        older ones that of the lowest address. No file says which: what is as in the recording is
        right.
        """
        found = self._own(self.total_bytes, reuses=False)
        if _likeness(found) != (True, 0):
            found = max(found, self._own(self.total_bytes, reuses=True), key=_likeness)
        self._made.clear()  # the others are not needed again
        return found

    def _own(self, total: int | None, *, reuses: bool) -> Simulation:
        if (total, reuses) not in self._made:
            self._made[total, reuses] = run(
                self.replay,
                self.settings,
                total=total,
                allowed=self.allowed_bytes,
                card=self.replay.card_bytes,
                recorded=self,
                reuses=reuses,
                log=True,
            )
        return self._made[total, reuses]

    @cached_property
    def reproduced(self) -> bool:
        """Whether that gives the recorded segment events again, in kind, order and size."""
        return _likeness(self.own)[0]


def recorded_of(replay: MeasuredTrace) -> Recorded:
    """That of a replay: made once."""
    if not isinstance(replay.recorded_allocator, Recorded):
        replay.recorded_allocator = Recorded(replay)
    return replay.recorded_allocator


class Simulated:
    """One device's program with these settings on a card of `total_bytes`.

    Made by `Replay.simulate`; `log` keeps what was asked of the driver.
    """

    def __init__(
        self,
        replay: MeasuredTrace,
        settings: AllocatorSettings,
        total_bytes: int | None,
        edit: Edit | None = None,
        *,
        log: bool = False,
    ) -> None:
        recorded = recorded_of(replay)
        self.replay = replay
        self.settings = settings
        self.edit = edit
        self.total_bytes = recorded.total_bytes if total_bytes is None else total_bytes
        self.recorded = recorded.outcome
        self.same = (
            edit is None
            and settings == recorded.settings
            and self.total_bytes == recorded.total_bytes
        )
        """Whether nothing is other than in the recording."""
        said = settings.memory_fraction, recorded.settings.memory_fraction
        self._own_card = total_bytes is None
        self._inferred = self._own_card and said == (None, None)
        self.native = recorded.own if self.same else self.rerun(log=log)

    def rerun(self, *, log: bool = False, trace: bool = False) -> Simulation:
        """The simulation; with `trace` it keeps the events that a recording of it would have."""
        recorded = recorded_of(self.replay)
        return run(
            self.replay,
            self.settings,
            total=self.total_bytes,
            allowed=recorded.allowed_bytes if self.same else self._allowed(),
            card=self._card(),
            recorded=recorded,
            reuses=recorded.own.reuses,
            edit=self.edit,
            log=log,
            trace=trace,
        )

    def __repr__(self) -> str:
        return f"<Simulated: {spelled(self.settings) or 'default settings'}, {self.outcome}>"

    def _repr_html_(self) -> str:
        rows = [("settings", spelled(self.settings)), ("total_bytes", self.total_bytes)]
        return html_table("Simulated", [*rows, ("outcome", self.outcome)])

    def _card(self) -> int | None:
        if self.total_bytes != recorded_of(self.replay).total_bytes:
            return self.total_bytes
        return self.replay.card_bytes or self.total_bytes

    def _allowed(self) -> int | None:
        if self.settings.memory_fraction is None:
            return recorded_of(self.replay).allowed_bytes if self._inferred else None
        card = self._card()
        if card is None:
            raise UsageError(
                "per_process_memory_fraction is a part of the card's memory, which the file does"
                " not tell: give --total-memory"
            )
        return int(self.settings.memory_fraction * card)

    @cached_property
    def outcome(self) -> Outcome:
        """What the allocator makes of the program."""
        native, first = self.native, self.replay.first_event
        reserved, reserved_at = native.reserved_peak
        active, active_at = native.active_peak
        requested, requested_at = native.requested_peak
        return Outcome(
            reserved_peak_bytes=reserved,
            reserved_peak_event=reserved_at + first,
            requested_peak_bytes=requested,
            requested_peak_event=requested_at + first,
            active_peak_bytes=active,
            active_peak_event=active_at + first,
            unused_bytes=reserved - native.fullest,
            segments=native.mapped_ranges,
            driver_allocs=native.driver_allocs,
            driver_frees=native.driver_frees,
            alloc_retries=native.retries,
            ooms=len(self.failed_events),
            failed_event=next(iter(self.failed_events), None),
        )

    @cached_property
    def failed_events(self) -> tuple[int, ...]:
        """The events whose requests fail."""
        return tuple(at + self.replay.first_event for at in self.native.failed())

    @property
    def stopped_event(self) -> int | None:
        """The event whose request fails here and did not in the recording: what the program would
        have done from there on nobody knows, and nothing more was simulated."""
        found = self.native.stopped_at
        return None if found is None else found + self.replay.first_event

    @property
    def fits(self) -> bool:
        """Whether no request fails, and what was reserved before the recording has room."""
        total = self.total_bytes
        roomy = total is None or self.replay.reserved.start_bytes <= total
        return roomy and not self.failed_events

    @cached_property
    def reasons(self) -> tuple[SimulationReason, ...]:
        """Why the outcome is an estimate, or empty: docs/simulate.md says each in words."""
        recorded = recorded_of(self.replay)
        found: list[SimulationReason] = []
        if not recorded.reproduced:
            found.append("not_reproduced")
        if self.native.unplaced:
            found.append("start_unplaced")
        if not self.same:
            if self.replay.reserved.start_bytes:
                found.append("began_with_memory")
                if self.total_bytes is not None and (
                    self.replay.reserved.start_bytes > self.total_bytes
                ):
                    found.append("start_too_large")
            served = set(self.replay.events_of("oom")) - set(self.failed_events)
            if served and self.stopped_event is None:
                found.append("request_succeeds")
            if self.edit is not None and self.edit.twice:
                found.append("came_back_late")
            if self._inferred and recorded.allowed_inferred:
                found.append("limit_inferred")
            elif self._own_card and recorded.total_inferred:
                found.append("total_inferred")
        return tuple(found)

    @property
    def exact(self) -> bool:
        """Whether PyTorch's allocator would have done the same, as far as the file can tell."""
        return not self.reasons


def simulate(
    replay: MeasuredTrace,
    settings: AllocatorSettings | str = "",
    total_bytes: int | None = None,
    edit: Edit | None = None,
) -> Simulated:
    """See `Replay.simulate`."""
    if isinstance(settings, str):
        settings = changed_settings(replay.settings, settings)
    if total_bytes is not None and total_bytes <= 0:
        raise UsageError("a card has more than 0 bytes")
    return Simulated(replay, settings, total_bytes, edit)


def run(
    replay: MeasuredTrace,
    settings: AllocatorSettings,
    *,
    total: int | None,
    allowed: int | None,
    card: int | None,
    recorded: Recorded,
    reuses: bool,
    edit: Edit | None = None,
    log: bool = False,
    trace: bool = False,
) -> Simulation:
    """The engine's simulation. Bytes: `total` is what the driver has for the process, `allowed`
    what it may have of that, `card` all of the card's; None where there is no limit."""
    from memreplay.engine.simulate import _simulating

    collect_from = _collect_from(settings, allowed)
    known = card or total or UNKNOWN_CARD
    return _simulating.Simulation(
        replay.blocks,
        replay.holding,
        divisions=settings.divisions,
        max_split=settings.max_split_bytes,
        max_non_split=settings.max_non_split_bytes,
        large_segment=settings.large_segment_bytes,
        expandable=settings.expandable,
        total=-1 if total is None else total,
        allowed=-1 if allowed is None else allowed,
        collect_from=-1 if collect_from is None else collect_from,
        space=known + known // 8,
        reuses=reuses,
        recorded_limit=recorded.limit_bytes,
        recorded_collect_from=-1 if recorded.collect_from is None else recorded.collect_from,
        recorded_handle=replay.settings.large_segment_bytes,
        edited=None if edit is None else edit.chosen.native,
        factor=1.0 if edit is None else edit.factor,
        twice=edit is not None and edit.twice,
        log=log,
        trace=trace,
    )


def _collect_from(settings: AllocatorSettings, allowed: int | None) -> int | None:
    """PyTorch collects where a part of the memory is set, and not elsewhere."""
    if settings.collect_threshold <= 0 or allowed is None:
        return None
    return int(settings.collect_threshold * allowed)


def _likeness(own: Simulation) -> tuple[bool, int]:
    """Whether the segment events are those of the recording, and how few blocks lie elsewhere."""
    equal, recorded, simulated = own.reproduced
    return equal == recorded == simulated and own.stopped_at is None, -own.misplaced


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


def _segment(request: int, settings: AllocatorSettings) -> int:
    """What the driver is asked for at most, for a request."""
    if request <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if settings.expandable or request < LARGE_REQUEST:
        handle = settings.large_segment_bytes
        return -(-request // handle) * handle
    return -(-request // SMALL_SEGMENT) * SMALL_SEGMENT
