"""Determine the step phase of each event: forward, backward or optimizer.

An event has the phase of the last allocation up to it, as recorded or guessed (`peak --by phase`).
Allocations of unknown phase continue the previous one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.analysis.comparing.records import PHASES, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        self.starts: NDArray[np.int64] = starts
        self.names: tuple[Phase | None, ...] = names

    def at(self, event: int) -> Phase | None:
        """Return the phase after an event; None outside the phases."""
        run = int(np.searchsorted(self.starts, event - self.first_event, side="right")) - 1
        return self.names[run] if run >= 0 else None

    def highest(self, usage: Usage) -> dict[Phase, PhasePoint]:
        """Return a measure's peak for each phase that occurs."""
        if not len(self.starts):
            return {}
        series = np.asarray(usage.column)
        most = np.maximum.reduceat(series, self.starts)
        found: dict[Phase, PhasePoint] = {}
        for phase in PHASES:
            runs = np.array([name == phase for name in self.names], dtype=bool)
            if not runs.any():
                continue
            run = int(np.flatnonzero(runs)[np.argmax(most[runs])])
            start = int(self.starts[run])
            stop = int(self.starts[run + 1]) if run + 1 < len(self.starts) else len(series)
            at = start + int(np.argmax(series[start:stop]))
            found[phase] = PhasePoint(int(series[at]), at + self.first_event)
        return found


def _runs(grouper: Grouper, usage: Usage) -> tuple[NDArray[np.int64], tuple[Phase | None, ...]]:
    """Return where runs of events in the same phase begin, and each run's phase."""
    replay = usage.replay
    nothing = np.zeros(0, dtype=np.int64)
    action = replay.column("action")
    code = _core.ACTIONS.index("alloc")
    if isinstance(action, int):
        rows = np.arange(replay.events if action == code else 0, dtype=np.int64)
    else:
        rows = np.flatnonzero(np.asarray(action) == code)
    if not len(rows):
        return nothing, ()
    keys = grouper.keys(usage)
    groups = np.asarray(keys.numbers(rows.data, nothing.data)[0])
    dimensions = grouper.dimensions
    names = [
        dimensions.label(usage, "phase", name).text for name in memoryview(keys.names()).tolist()
    ]
    # 0 to 2 are the phases, 3 means none, and 4 means the same as before.
    number = np.array(
        [
            PHASES.index(_OF[name]) if name in _OF else 3 if name in _BETWEEN else 4
            for name in names
        ],
        dtype=np.int8,
    )[groups]
    said = number < 4
    rows, number = rows[said], number[said]
    if not len(rows):
        return nothing, ()
    begins = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    called: tuple[Phase | None, ...] = (*PHASES, None)
    return rows[begins], tuple(called[one] for one in number[begins].tolist())
