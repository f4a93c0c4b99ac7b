"""A recorded program on an allocator of other settings, or on another card."""

from __future__ import annotations

import operator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from memreplay.errors import UsageError
from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings, spelled
from memreplay.snapshot.brief import html_table
from memreplay.snapshot.once import once
from memreplay.snapshot.recorded_allocator import (
    MOST_BYTES,
    Card,
    Edit,
    Outcome,
    Recorded,
    run,
)
from memreplay.snapshot.staying import Staying

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from memreplay.engine.simulate._simulating import Simulation
    from memreplay.snapshot.measured import MeasuredTrace
    from memreplay.snapshot.model import SimulationReason


class Simulated(Staying):
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
        self.replay = replay
        self.settings = settings
        self.edit = edit
        self._given = total_bytes
        recorded = Recorded(replay)
        with ThreadPoolExecutor(1) as beside:
            early = self._begun(recorded, beside, log=log)
            # Meanwhile the recording's own settings are simulated.
            card = self._card(recorded.total_bytes, reuses=recorded.own.reuses)
            self.recorded = recorded.outcome
        self.total_bytes = card.total
        self.same = self._is_same(recorded.total_bytes)
        """Whether nothing is other than in the recording."""
        if self.same:
            self.native = recorded.own
        elif early is not None and early[0] == card:
            self.native = early[1].result()
        else:
            self.native = self._run(card, log=log)

    def _begun(
        self, recorded: Recorded, beside: Executor, *, log: bool
    ) -> tuple[Card, Future[Simulation]] | None:
        """The simulation, begun before the recording's own settings have been simulated, with what
        that will most probably tell of the card."""
        likely = recorded.likely_total
        if recorded.is_simulated or self._is_same(likely):
            return None
        try:
            card = self._card(likely, reuses=False)
        except UsageError:
            return None  # or it is one when more is known
        self._prepare(recorded)
        return card, beside.submit(self._run, card, log=log)

    def _prepare(self, recorded: Recorded) -> None:
        """Make what both simulations need."""
        _ = self.replay.blocks, self.replay.holding, recorded.limit_bytes, recorded.collect_from
        if self.edit is not None:
            self.edit.prepare()

    def _is_same(self, recorded_total: int | None) -> bool:
        return (
            self.edit is None
            and self.settings == self.replay.settings
            and self._given in (None, recorded_total)
        )

    def _run(self, card: Card, *, log: bool = False, trace: bool = False) -> Simulation:
        recorded = Recorded(self.replay)
        return run(self.replay, self.settings, card, recorded, edit=self.edit, log=log, trace=trace)

    def rerun(self, *, trace: bool = False) -> Simulation:
        """The simulation again; with `trace` it keeps the events that a recording of it would
        have."""
        recorded = Recorded(self.replay)
        card = self._card(recorded.total_bytes, reuses=recorded.own.reuses)
        return self._run(card, trace=trace)

    def __repr__(self) -> str:
        return f"<Simulated: {spelled(self.settings) or 'default settings'}, {self.outcome}>"

    def _repr_html_(self) -> str:
        rows = [("settings", spelled(self.settings)), ("total_bytes", self.total_bytes)]
        return html_table("Simulated", [*rows, ("outcome", self.outcome)])

    @property
    def _inferred(self) -> bool:
        """Whether what the process may have of the card is as in the recording."""
        said = self.settings.memory_fraction, self.replay.settings.memory_fraction
        return self._given is None and said == (None, None)

    @property
    def _card_is_inferred(self) -> bool:
        """Whether a fraction is taken of what the driver has for the process, as nobody knows the
        card's memory."""
        recorded = Recorded(self.replay)
        known = self.replay.card_bytes is not None and self.total_bytes == recorded.total_bytes
        return self.settings.memory_fraction is not None and not known

    def _card(self, recorded_total: int | None, *, reuses: bool) -> Card:
        if self._is_same(recorded_total):
            allowed = Recorded(self.replay).allowed_bytes
            return Card(recorded_total, allowed, self.replay.card_bytes, reuses)
        total = recorded_total if self._given is None else self._given
        card = total
        if total == recorded_total:
            card = self.replay.card_bytes or total
        return Card(total, self._allowed(card), card, reuses)

    def _allowed(self, card: int | None) -> int | None:
        if self.settings.memory_fraction is None:
            return Recorded(self.replay).allowed_bytes if self._inferred else None
        if card is None:
            raise UsageError(
                "per_process_memory_fraction is a part of the card's memory, which the file does"
                " not tell: give --total-memory"
            )
        return int(self.settings.memory_fraction * card)

    @once
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
            unused_bytes=max(0, reserved - active),
            segments=native.mapped_ranges,
            driver_allocs=native.driver_allocs,
            driver_frees=native.driver_frees,
            alloc_retries=native.retries,
            ooms=len(self.failed_events),
            failed_event=next(iter(self.failed_events), None),
        )

    @once
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
    def resynced_event(self) -> int | None:
        """The first event whose request waits for streams here and did not in the recording, or the
        other way round. When frees after it complete nobody knows."""
        found = self.native.resynced_at
        return None if found is None else found + self.replay.first_event

    @property
    def fits(self) -> bool:
        """Whether no request fails, and what was reserved before the recording has room."""
        total = self.total_bytes
        roomy = total is None or self.replay.reserved.start_bytes <= total
        return roomy and not self.failed_events

    @once
    def reasons(self) -> tuple[SimulationReason, ...]:
        """Why the outcome is an estimate, or empty: docs/simulate.md says each in words."""
        recorded = Recorded(self.replay)
        found: list[SimulationReason] = []
        if not recorded.reproduced:
            found.append("not_reproduced")
        if self.native.unplaced:
            found.append("start_unplaced")
        placed = recorded.reproduced and bool(recorded.own.reuses or recorded.own.misplaced)
        active = self.replay.measure("active").peak.bytes
        if self.same and placed and self.outcome.active_peak_bytes != active:
            found.append("placed_by_address")
        if not self.same:
            # All else is as addresses are in the recording, which nobody knows for other segments.
            if placed:
                found.append("placed_by_address")
            if self.replay.reserved.start_bytes:
                found.append("began_with_memory")
                if self.total_bytes is not None and (
                    self.replay.reserved.start_bytes > self.total_bytes
                ):
                    found.append("start_too_large")
            served = set(self.replay.events_of("oom")) - set(self.failed_events)
            if served and self.stopped_event is None:
                found.append("request_succeeds")
            if self.resynced_event is not None:
                found.append("streams_waited")
            if self.edit is not None and self.edit.twice:
                found.append("came_back_late")
            elif self.edit is not None and recorded.outcome.ooms and not self.native.changes_all:
                found.append("failures_unchanged")
            if self._inferred and recorded.allowed_inferred:
                found.append("limit_inferred")
            elif self._given is None and recorded.total_inferred:
                found.append("total_inferred")
            if self._card_is_inferred:
                found.append("card_inferred")
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
    elif not isinstance(settings, AllocatorSettings):
        raise TypeError(f"settings are a text or AllocatorSettings, not {settings!r}")
    if total_bytes is not None:
        total_bytes = operator.index(total_bytes)
        if not 0 < total_bytes <= MOST_BYTES:
            raise UsageError(f"a card has from 1 to {MOST_BYTES:,} bytes, not {total_bytes:,}")
    return Simulated(replay, settings, total_bytes, edit)
