"""Simulate a recorded program with other allocator settings, or on another card."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from memreplay.errors import UsageError
from memreplay.io.parallel import Beside
from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings, spelled
from memreplay.snapshot.brief import html_table
from memreplay.snapshot.once import once
from memreplay.snapshot.recorded_allocator import (
    MOST_BYTES,
    Card,
    Edit,
    Keeping,
    Outcome,
    Recorded,
    run,
)
from memreplay.snapshot.staying import Staying

if TYPE_CHECKING:
    from memreplay.engine.simulate._simulating import Simulation
    from memreplay.snapshot.measured import MeasuredTrace
    from memreplay.snapshot.model import SimulationReason


class Simulated(Staying):
    """A simulation of one device's program with these settings and this memory.

    Returned by `Replay.simulate`. `log` keeps the driver calls.
    """

    def __init__(
        self,
        replay: MeasuredTrace,
        settings: AllocatorSettings,
        program_memory: int | None,
        edit: Edit | None = None,
        *,
        log: bool = False,
    ) -> None:
        self.replay = replay
        self.settings = settings
        self.edit = edit
        self._given = program_memory
        recorded = Recorded(replay)
        early = self._begun(recorded, log=log)
        try:
            # The recording's own settings are simulated at the same time.
            card = self._card(recorded.program_memory_bytes, reuses=recorded.own.reuses)
            self.recorded = recorded.outcome
        finally:
            if early is not None:
                early[1].wait()
        self.program_memory_bytes = card.total
        self.same = self._is_same(recorded.program_memory_bytes)
        """Whether nothing differs from the recording."""
        if self.same:
            self.native = recorded.own
        elif early is not None and early[0] == card:
            self.native = early[1].result()
        else:
            self.native = self._run(card, log=log)

    def _begun(self, recorded: Recorded, *, log: bool) -> tuple[Card, Beside[Simulation]] | None:
        """Start this simulation before the one with the recording's own settings has finished.

        This simulation uses the card that the other one will most likely find.
        """
        likely = recorded.likely_total
        if recorded.is_simulated or self._is_same(likely):
            return None
        try:
            card = self._card(likely, reuses=False)
        except UsageError:
            return None  # the settings may turn out to be valid once more is known
        self._prepare(recorded)
        return card, Beside(lambda: self._run(card, log=log))

    def _prepare(self, recorded: Recorded) -> None:
        """Compute the data that both simulations need."""
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
        keeping = Keeping(log=log, trace=trace)
        return run(Recorded(self.replay), self.settings, card, self.edit, keeping)

    def rerun(self, *, trace: bool = False) -> Simulation:
        """Run the simulation again. `trace` keeps the events that a recording of it would have."""
        recorded = Recorded(self.replay)
        card = self._card(recorded.program_memory_bytes, reuses=recorded.own.reuses)
        return self._run(card, trace=trace)

    def __repr__(self) -> str:
        return f"<Simulated: {spelled(self.settings) or 'default settings'}, {self.outcome}>"

    def _repr_html_(self) -> str:
        rows = [
            ("settings", spelled(self.settings)),
            ("program_memory_bytes", self.program_memory_bytes),
        ]
        return html_table("Simulated", [*rows, ("outcome", self.outcome)])

    @property
    def _inferred(self) -> bool:
        """Return whether the process's memory limit is inferred from the recording."""
        said = self.settings.memory_fraction, self.replay.settings.memory_fraction
        return self._given is None and said == (None, None)

    @property
    def _card_is_inferred(self) -> bool:
        """Return whether fractions are taken of the driver's memory, because the card's size is
        unknown.
        """
        recorded = Recorded(self.replay)
        known = (
            self.replay.card_bytes is not None
            and self.program_memory_bytes == recorded.program_memory_bytes
        )
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
                "per_process_memory_fraction is a fraction of the card's memory, which the file"
                " doesn't have: add --total-memory"
            )
        return int(self.settings.memory_fraction * card)

    @once
    def outcome(self) -> Outcome:
        """How the allocator served the program."""
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
            oom_count=len(self.failed_events),
            failed_event=next(iter(self.failed_events), None),
        )

    @once
    def failed_events(self) -> tuple[int, ...]:
        """The events whose requests failed."""
        return tuple(at + self.replay.first_event for at in self.native.failed())

    @property
    def stopped_event(self) -> int | None:
        """The event whose request fails only in the simulation, which then stops; None if there is
        no such event.

        What the program would have done afterwards isn't known.
        """
        found = self.native.stopped_at
        return None if found is None else found + self.replay.first_event

    @property
    def resynced_event(self) -> int | None:
        """First event whose request waits for streams only in the simulation or only in the
        recording, or None.

        From this event on, it isn't known when frees complete.
        """
        found = self.native.resynced_at
        return None if found is None else found + self.replay.first_event

    @property
    def fits(self) -> bool:
        """Whether all requests succeed and the initially reserved memory fits."""
        total = self.program_memory_bytes
        roomy = total is None or self.replay.reserved.start_bytes <= total
        return roomy and not self.failed_events

    @once
    def reasons(self) -> tuple[SimulationReason, ...]:
        """The reasons why the outcome is only an estimate, if any; docs/simulate.md
        explains them.
        """
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
            # Results also depend on the addresses of segments, which aren't known for segments that
            # differ.
            if placed:
                found.append("placed_by_address")
            if self.replay.reserved.start_bytes:
                found.append("began_with_memory")
                if self.program_memory_bytes is not None and (
                    self.replay.reserved.start_bytes > self.program_memory_bytes
                ):
                    found.append("start_too_large")
            served = set(self.replay.events_of("oom")) - set(self.failed_events)
            if served and self.stopped_event is None:
                found.append("request_succeeds")
            if self.resynced_event is not None:
                found.append("streams_waited")
            if self.edit is not None and self.edit.twice:
                found.append("came_back_late")
            elif (
                self.edit is not None and recorded.outcome.oom_count and not self.native.changes_all
            ):
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
        """Whether, as far as the file shows, PyTorch's allocator would have done the same."""
        return not self.reasons


def simulate(
    replay: MeasuredTrace,
    settings: AllocatorSettings | str = "",
    program_memory: int | None = None,
    edit: Edit | None = None,
) -> Simulated:
    """Simulate; see `Replay.simulate`."""
    if isinstance(settings, str):
        settings = changed_settings(replay.settings, settings)
    elif not isinstance(settings, AllocatorSettings):
        raise TypeError(f"settings must be a string or AllocatorSettings, not {settings!r}")
    if program_memory is not None:
        program_memory = operator.index(program_memory)
        if not 0 < program_memory <= MOST_BYTES:
            raise UsageError(
                f"program_memory must be from 1 to {MOST_BYTES:,}, not {program_memory:,}"
            )
    return Simulated(replay, settings, program_memory, edit)
