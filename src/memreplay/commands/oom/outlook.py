"""What would have come after a request that failed, as far as the recording goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.advising.lives import Lives
from memreplay.analysis.advising.passes import unneeded
from memreplay.analysis.advising.state import state_left
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.simulating.fitting import smallest
from memreplay.errors import UsageError
from memreplay.snapshot.recorded_allocator import Edit

if TYPE_CHECKING:
    from memreplay.analysis.groups.asking import Asker
    from memreplay.commands.oom.deciding import Deciding
    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

# With more events the smallest card is not searched for: 10 simulations and more.
MOST_EVENTS = 500_000
MOST_TOLD = 8  # requests of a device, the first that are told, of which all this is asked


class Outlook(NamedTuple):
    """What is known of the time after one request."""

    events: int
    allocations: int
    more_bytes: int | None = None
    to_end_bytes: int | None = None
    state_bytes: int = 0
    unneeded_bytes: int = 0
    without_largest: bool | None = None
    """Whether the request succeeds without the largest group, as simulated; None if that can't be
    told."""


class Looking:
    """Looks at what comes after the requests of one device that failed."""

    def __init__(self, snap: Snapshot, replay: Replay, deciding: Deciding) -> None:
        self.snap = snap
        self.replay = replay
        self.deciding = deciding
        self._told = 0
        self._lives: Lives | None = None

    def after(
        self, event: int, missing: int, asker: Asker, largest: tuple[Grouper, int]
    ) -> Outlook:
        """Look from one request on. `largest` is the group that holds most then, by its number."""
        replay, first = self.replay, self.replay.first_event
        lives = self._lives = (
            self._lives
            if self._lives is not None
            else Lives(replay, Grouper(self.snap, "category"))
        )
        found = Outlook(replay.start + replay.events - event, lives.made_after(event - first))
        self._told += 1
        if self._told > MOST_TOLD or not replay.allocations:
            return found
        failed = [one - first for one in replay.events_of("oom")]
        told = lives.recorded or replay.events == replay.tally.with_stack
        passes = unneeded(lives, failed, told=told, at=event - first)
        more, to_end = self._more(event, missing)
        return found._replace(
            more_bytes=more,
            to_end_bytes=to_end,
            state_bytes=state_left(lives, asker.frames, event - first),
            unneeded_bytes=0 if passes is None else passes.held_bytes,
            without_largest=self._without(event, *largest),
        )

    def _more(self, event: int, missing: int) -> tuple[int | None, int | None]:
        """How much more memory serves this request, and how much all of the recording; None if a
        simulation can't tell.

        With more memory less was given back before: then other blocks are in the way, and what was
        missing may not be enough.
        """
        total = self.replay.recorded.total_bytes
        if total is None or not missing or not self.deciding.reproduces(event):
            return None, None
        found = self.replay.simulate(total_bytes=total + missing)
        if found.resynced_event is not None and found.resynced_event < event:
            return None, None
        if not found.failed_events:
            return missing, missing
        more = None if event in found.failed_events else missing
        if self.replay.events > MOST_EVENTS:
            return more, None
        try:
            whole = smallest(self.replay, self.replay.settings).total_bytes - total
        except UsageError:
            return more, None
        return (whole if more is None else more), max(missing, whole)

    def _without(self, event: int, grouper: Grouper, number: int) -> bool | None:
        """Whether the request succeeds if a group isn't there at all."""
        if number < 0 or not self.deciding.reproduces(event):
            return None

        def narrow(narrowed: Usage, measure: Measure) -> Measure:
            keys = grouper.keys(narrowed)
            groups = keys.meet()
            keys.keep(measure, bytes(one == number for one in range(groups)))
            return measure

        chosen = self.replay.measure("requested").only(narrow)
        found = self.replay.simulate(edit=Edit(chosen, 0.0))
        if found.resynced_event is not None and found.resynced_event < event:
            return None
        stopped = found.stopped_event
        if event not in found.failed_events and (stopped is None or stopped > event):
            return True
        # Blocks from before the recording lie as they do: elsewhere they may leave room.
        return None if self.replay.reserved.start_bytes else False
