"""Of one device all allocations: from which event to which, with how many bytes, by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.snapshot.columns import view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_NEVER = _core.ABSENT_ID
_EMPTY = 0  # the stack of no frames
_PART = 1 << 15  # rows
_GONE = _core.ABSENT_ID - 1  # an end: let go of before the first event


class Lives(NamedTuple):
    """Columns, a row an allocation: first what was there before the first event, then in
    the order of the events that made them. Events are counted from the device's first that was
    read; what never happened comes behind the last one."""

    begin: NDArray[np.int32]
    """The event that made it; -1 for what was there before."""
    end: NDArray[np.int32]
    """The event that ends it for requested and active bytes: its free was completed."""
    let_go: NDArray[np.int32]
    """The one that ends it for held and allocated bytes: its free was requested."""
    requested: NDArray[np.int64]
    block: NDArray[np.int64]
    stack: NDArray[np.int32]
    """Its number; that of stacks for none, one more for none before the first event."""
    pool: NDArray[np.int32]
    """Its class among `Replay.classes("pool")`; 0 where it is not known."""
    stream: NDArray[np.int32]
    """The same of streams."""
    address: NDArray[np.uint64]


def lives(snap: Snapshot, replay: Replay) -> Lives:
    """The allocations of one device."""
    names: tuple[MeasureName, ...] = ("requested", "held", "active")
    requested, held, active = (replay.measure(name).native for name in names)
    pool, stream = replay.classes("pool"), replay.classes("stream")
    columns = slice(replay.native.first_row, replay.native.first_row + replay.events)

    def column(name: str, dtype: str) -> NDArray[Any]:
        return view(snap.native.column(name), snap.native.n_events, dtype)[columns]

    rows = np.flatnonzero(column("action", "u1") == _core.ACTIONS.index("alloc"))
    there = replay.carried_blocks
    begin = np.empty(there + len(rows), dtype=np.int32)
    begin[:there] = -1
    begin[there:] = rows
    stacks = _joined(replay.native.carried("stack"), column("stack", "u4"), rows, np.int32)
    stacks[:there][stacks[:there] == _EMPTY] = snap.code.stacks + 1
    stacks[stacks == _EMPTY] = snap.code.stacks
    return Lives(
        begin=begin,
        end=_moments(requested, rows),
        let_go=_moments(held, rows),
        requested=_joined(requested.carried_weights(), requested.weights(), rows, np.int64),
        block=_joined(active.carried_weights(), active.weights(), rows, np.int64),
        stack=stacks,
        pool=_joined(pool.of_carried(), pool.of_events(), rows, np.int32),
        stream=_joined(stream.of_carried(), stream.of_events(), rows, np.int32),
        address=_joined(replay.native.carried("address"), column("address", "u8"), rows, np.uint64),
    )


def _moments(measure: Measure, rows: NDArray[np.intp]) -> NDArray[np.int32]:
    """The events at which allocations end; what never ends does so behind the last one."""
    # As numbers with a sign the two are -1 and -2.
    found = _joined(measure.carried_ends(), measure.ends(), rows, np.int32)
    never, gone = found == np.int32(_NEVER - (1 << 32)), found == np.int32(_GONE - (1 << 32))
    found[never] = measure.replay.events
    found[gone] = -1
    return found


def _joined(
    before: Any, of_events: Any, rows: NDArray[np.intp], dtype: type[np.generic]
) -> NDArray[Any]:
    """A column of what was there before, and of these of all events."""
    first, every = np.asarray(before), np.asarray(of_events)
    found = np.empty(len(first) + len(rows), dtype=dtype)
    found[: len(first)] = first
    # A part at a time: what is in between is never in memory as a whole.
    for at in range(0, len(rows), _PART):
        some = rows[at : at + _PART]
        found[len(first) + at : len(first) + at + len(some)] = every[some]
    return found
