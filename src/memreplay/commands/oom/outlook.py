"""Predict what would have followed a failed request, using the events recorded after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.advising.lives import Lives
from memreplay.analysis.advising.passes import unneeded
from memreplay.analysis.advising.state import remaining_state_bytes
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.simulating.fitting import smallest
from memreplay.errors import UsageError
from memreplay.snapshot.recorded_allocator import Edit

if TYPE_CHECKING:
    from memreplay.analysis.groups.requesting import Asker
    from memreplay.commands.oom.deciding import Deciding
    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

# With more events, skip the search for the smallest card, which takes 10 or more simulations.
MOST_EVENTS = 500_000
MOST_TOLD = 8  # maximum number of a device's failed requests that get the full outlook


class Outlook(Struct, frozen=True):
    """Predictions for one failed request."""

    events: int
    allocations: int
    more_bytes: int | None = None
    to_end_bytes: int | None = None
    state_bytes: int = 0
    unneeded_bytes: int = 0
    trained: bool = False
    """Whether the recording has backward passes."""
    without_largest: bool | None = None
    """Whether the request succeeds if the largest group is left out of the simulation; None if
    unknown.
    """


class Looking:
    """Predicts what would have followed one device's failed requests."""

    def __init__(self, snap: Snapshot, replay: Replay, deciding: Deciding) -> None:
        self.snap = snap
        self.replay = replay
        self.deciding = deciding
        self._told = 0
        self._lives: Lives | None = None

    def after(
        self, event: int, missing: int, asker: Asker, largest: tuple[Grouper, int]
    ) -> Outlook:
        """Predict what would have followed one request. `largest`: number of the largest group."""
        replay, first = self.replay, self.replay.first_event
        lives = self._lives = (
            self._lives
            if self._lives is not None
            else Lives(replay, Grouper(self.snap, "category"))
        )
        found = Outlook(replay.start + replay.events - event, lives.count_after(event - first))
        self._told += 1
        if self._told > MOST_TOLD or not replay.allocations:
            return found
        failed = [one - first for one in replay.events_of("oom")]
        told = lives.recorded or replay.events == replay.tally.with_stack
        passes = unneeded(lives, failed, told=told, at=event - first)
        more, to_end = self._more(event, missing)
        return replace(
            found,
            more_bytes=more,
            to_end_bytes=to_end,
            state_bytes=remaining_state_bytes(lives, asker.frames, event - first),
            unneeded_bytes=0 if passes is None else passes.saved_bytes,
            trained=passes is not None and passes.trained,
            without_largest=self._without(event, *largest),
        )

    def _more(self, event: int, missing: int) -> tuple[int | None, int | None]:
        """Return how much more memory this request needs, and how much the whole recording needs.
        Return None if a simulation can't tell.

        With more memory, the allocator releases less of its cache earlier. Other blocks are then in
        the way, so adding the missing amount may not be enough.
        """
        total = self.replay.recorded.program_memory_bytes
        if total is None or not missing or not self.deciding.reproduces(event):
            return None, None
        found = self.replay.simulate(program_memory=total + missing)
        if found.resynced_event is not None and found.resynced_event < event:
            return None, None
        if not found.failed_events:
            return missing, missing
        more = None if event in found.failed_events else missing
        if self.replay.events > MOST_EVENTS:
            return more, None
        try:
            whole = smallest(self.replay, self.replay.settings).program_memory_bytes - total
        except UsageError:
            return more, None
        return (whole if more is None else more), max(missing, whole)

    def _without(self, event: int, grouper: Grouper, number: int) -> bool | None:
        """Return whether the request succeeds if a group is left out."""
        if number < 0 or not self.deciding.reproduces(event):
            return None

        def narrow(narrowed: Usage, measure: Measure) -> Measure:
            keys = grouper.keys(narrowed)
            groups = keys.find_all()
            keys.keep(measure, bytes(one == number for one in range(groups)))
            return measure

        chosen = self.replay.measure("requested").only(narrow)
        found = self.replay.simulate(edit=Edit(chosen, 0.0))
        if found.resynced_event is not None and found.resynced_event < event:
            return None
        stopped = found.stopped_event
        if event not in found.failed_events and (stopped is None or stopped > event):
            return True
        # Carried-over blocks keep their addresses. At other addresses, they might leave more room.
        return None if self.replay.reserved.start_bytes else False
