"""In which phase of a step memory is at each event: the forward or backward pass, or the optimizer.

An event is in the phase that the latest allocation before it was made in, as recorded or guessed
from its stack (`peak --by phase`). What says nothing of a phase goes on with the one before.
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


# Of the names that `--by phase` has: a checkpoint is computed again within the backward pass. What
# is before the first step or between two isn't in any of the three; other names go on.
_OF: dict[str, Phase] = {
    "forward": "forward",
    "backward": "backward",
    "recomputation": "backward",
    "optimizer": "optimizer",
}
_BETWEEN = ("start", "data")


class PhasePoint(NamedTuple):
    """The highest of a phase, and the first event after which it is so."""

    bytes: int
    event_index: int


class PhaseTimes:
    """Which events of a device are in which phase, as runs; `grouper` is one by phase."""

    def __init__(self, grouper: Grouper, usage: Usage) -> None:
        self.first_event = usage.replay.first_event
        self.events = usage.replay.events
        starts, names = _runs(grouper, usage)
        self.starts: NDArray[np.int64] = starts
        self.names: tuple[Phase | None, ...] = names

    def at(self, event: int) -> Phase | None:
        """The phase after an event; None outside of them."""
        run = int(np.searchsorted(self.starts, event - self.first_event, side="right")) - 1
        return self.names[run] if run >= 0 else None

    def highest(self, usage: Usage) -> dict[Phase, PhasePoint]:
        """How high a measure of the device goes in each phase that there is."""
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
    """Where runs of events of one phase begin, and which these are."""
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
    # 0 to 2 the phases, 3 between them, 4 goes on with what was before.
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
