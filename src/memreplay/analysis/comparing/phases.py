"""Determine the step phase of each event: forward, backward or optimizer.

An event has the phase of the last allocation up to it, as recorded or guessed (`peak --by phase`).
Allocations of unknown phase continue the previous one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import memreplay._core as _core
from memreplay.analysis.comparing.records import PHASES, Phase
from memreplay.engine.query._vectors import joined, vector

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage


# Maps the names in `--by phase` to phases. Recomputed checkpoints belong to the backward pass.
# Memory before the first step or between steps has no phase. Names that aren't listed here continue
# the previous phase.
_OF: dict[str, Phase] = {
    "forward": "forward",
    "backward": "backward",
    "recomputation": "backward",
    "optimizer": "optimizer",
}
_BETWEEN = ("start", "data")


class PhasePoint(NamedTuple):
    """A phase's peak, and the first event after which the peak is reached."""

    bytes: int
    event_index: int


class PhaseTimes:
    """The phases of a device's events, as runs of events with the same phase. `grouper`: a grouper
    by phase.
    """

    def __init__(self, grouper: Grouper, usage: Usage) -> None:
        self.first_event = usage.replay.first_event
        self.events = usage.replay.events
        starts, names = _runs(grouper, usage)
        self.starts: list[int] = starts
        self.names: tuple[Phase | None, ...] = names

    def at(self, event: int) -> Phase | None:
        """Return the phase after an event; None outside the phases."""
        run = bisect_right(self.starts, event - self.first_event) - 1
        return self.names[run] if run >= 0 else None

    def highest(self, usage: Usage) -> dict[Phase, PhasePoint]:
        """Return a measure's peak for each phase that occurs."""
        if not self.starts:
            return {}
        bounds = [at + self.first_event for at in (*self.starts, self.events)]
        _, most, event = usage.ranges(bounds)
        found: dict[Phase, PhasePoint] = {}
        for phase in PHASES:
            runs = [run for run, name in enumerate(self.names) if name == phase]
            if runs:
                highest = max(runs, key=most.__getitem__)
                found[phase] = PhasePoint(most[highest], event[highest])
        return found


def _runs(grouper: Grouper, usage: Usage) -> tuple[list[int], tuple[Phase | None, ...]]:
    """Return where runs of events in the same phase begin, and each run's phase."""
    replay = usage.replay
    rows = (replay.vector("action", "B") == _core.ACTIONS.index("alloc")).rows()
    if not len(rows):
        return [], ()
    keys = grouper.keys(usage)
    groups = vector(keys.numbers(rows.as_format("q"), vector([]))[0])
    dimensions = grouper.dimensions
    names = [
        dimensions.label(usage, "phase", name).text for name in memoryview(keys.names()).tolist()
    ]
    # 0 to 2 are the phases, 3 means none, and 4 means the same as before.
    number = vector(
        [
            PHASES.index(_OF[name]) if name in _OF else 3 if name in _BETWEEN else 4
            for name in names
        ],
        "B",
    )[groups]
    said = number < 4
    rows, number = rows[said], number[said]
    if not len(rows):
        return [], ()
    begins = joined([[1], number[1:] != number[:-1]], "?").rows()
    called: tuple[Phase | None, ...] = (*PHASES, None)
    return rows[begins].tolist(), tuple(called[one] for one in number[begins])
