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

    @cached_property
    def _seen(self) -> dict[int, int]:
        """What was reserved and free at each request that failed, by its event."""
        reserved = self.replay.measure("reserved")
        return {
            event: reserved.bytes_at(event) + free for event, free in self.replay.oom_free.items()
        }

    @cached_property
    def total_bytes(self) -> int | None:
        """What the driver had for this process; None where nobody knows."""
        if self._seen:
            return max(*self._seen.values(), self.replay.measure("reserved").peak.bytes)
        if self.total_inferred:
            return self.replay.measure("reserved").peak.bytes
        return self.replay.card_bytes

    @cached_property
    def total_inferred(self) -> bool:
        """Whether `total_bytes` is no more than what was reserved: the file does not tell, but
        memory was short, as cached memory was given back for a request."""
        if self._seen or self.replay.card_bytes is not None:
            return False
        return self.allowed_bytes is None and self._unlimited.recorded_short

    @cached_property
    def _unlimited(self) -> Simulation:
        return run(self.replay, self.settings, log=True)

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
    def own(self) -> Simulation:
        """The recording's own settings, simulated, with a log."""
        if self.total_bytes is None and self.allowed_bytes is None:
            return self._unlimited
        return run(
            self.replay,
            self.settings,
            total=self.total_bytes,
            allowed=self.allowed_bytes,
            card=self.replay.card_bytes,
            recorded_total=self.total_bytes,
            log=True,
        )

    @cached_property
    def reproduced(self) -> bool:
        """Whether that gives the recorded segment events again, in kind, order and size."""
        equal, recorded, simulated = self.own.reproduced
        return equal == recorded == simulated and self.own.stopped_at is None


def recorded_of(replay: MeasuredTrace) -> Recorded:
    """That of a replay: made once."""
    if not isinstance(replay.recorded_allocator, Recorded):
        replay.recorded_allocator = Recorded(replay)
    return replay.recorded_allocator


class Simulated:
    """One device's program with these settings on a card of `total_bytes`.

    Made by `Replay.simulate`.
    """

    def __init__(
        self,
        replay: MeasuredTrace,
        settings: AllocatorSettings,
        total_bytes: int | None,
        edit: Edit | None = None,
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
        self._inferred = total_bytes is None and settings.memory_fraction is None
        self.native = recorded.own if self.same else self.rerun(trace=False)

    def rerun(self, *, trace: bool) -> Simulation:
        """The simulation; with `trace` it keeps the events that a recording of it would have."""
        recorded = recorded_of(self.replay)
        return run(
            self.replay,
            self.settings,
            total=self.total_bytes,
            allowed=recorded.allowed_bytes if self.same else self._allowed(),
            card=self._card(),
            recorded_total=recorded.total_bytes,
            edit=self.edit,
            trace=trace,
        )

    def __repr__(self) -> str:
        return f"<Simulated: {spelled(self.settings) or 'default settings'}, {self.outcome}>"

    def _repr_html_(self) -> str:
        rows = [("settings", spelled(self.settings)), ("total_bytes", self.total_bytes)]
        return html_table("Simulated", [*rows, ("outcome", self.outcome)])

    def _card(self) -> int | None:
        if (
            self.total_bytes != recorded_of(self.replay).total_bytes
            or self.replay.card_bytes is None
        ):
            return self.total_bytes
        return self.replay.card_bytes

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
            if self.total_bytes == recorded.total_bytes and recorded.total_inferred:
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
    total: int | None = None,
    allowed: int | None = None,
    card: int | None = None,
    recorded_total: int | None = None,
    edit: Edit | None = None,
    log: bool = False,
    trace: bool = False,
) -> Simulation:
    """The engine's simulation. Bytes: `total` is what the driver has for the process, `allowed`
    what it may have of that, `card` all of the card's; None where there is no limit."""
    from memreplay.engine.simulate import _simulating

    collects = settings.collect_threshold > 0 and allowed is not None
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
        # PyTorch collects where a part of the memory is set, and not elsewhere.
        collect_from=int(settings.collect_threshold * (allowed or 0)) if collects else -1,
        space=known + known // 8,
        recorded_total=-1 if recorded_total is None else recorded_total,
        recorded_handle=replay.settings.large_segment_bytes,
        edited=None if edit is None else edit.chosen.native,
        factor=1.0 if edit is None else edit.factor,
        twice=edit is not None and edit.twice,
        log=log,
        trace=trace,
    )


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
