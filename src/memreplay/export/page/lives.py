"""All of a device's allocations as columns: beginning, end, bytes and stack."""

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
_EMPTY = 0  # the empty stack
_PART = 1 << 15  # rows per chunk
_GONE = _core.ABSENT_ID - 1  # the end of an allocation that was freed before the first event


class Lives(NamedTuple):
    """Columns with a row per allocation: carried-over blocks first, then in event order.

    Events are counted from the device's first selected one. Missing ends come after the last event.
    """

    begin: NDArray[np.int32]
    """The event that made the allocation; -1 if carried over."""
    end: NDArray[np.int32]
    """The end of an allocation's requested and active bytes: the event that completed the free."""
    let_go: NDArray[np.int32]
    """The end of an allocation's held and allocated bytes: the event that requested the free."""
    requested: NDArray[np.int64]
    block: NDArray[np.int64]
    stack: NDArray[np.int32]
    """Stack number, from 0. If there are N stacks, N means no stack, and N + 1 means carried over
    without a stack.
    """
    pool: NDArray[np.int32]
    """Index in `Replay.classes("pool")`; 0 if unknown."""
    stream: NDArray[np.int32]
    """Index in `Replay.classes("stream")`; 0 if unknown."""
    address: NDArray[np.uint64]


def lives(snap: Snapshot, replay: Replay) -> Lives:
    """Return one device's allocations."""
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
    """Return the events at which allocations end, with missing ends after the last event."""
    # As signed numbers, the two special values become -1 and -2.
    found = _joined(measure.carried_ends(), measure.ends(), rows, np.int32)
    never, gone = found == np.int32(_NEVER - (1 << 32)), found == np.int32(_GONE - (1 << 32))
    found[never] = measure.replay.events
    found[gone] = -1
    return found


def _joined(
    before: Any, of_events: Any, rows: NDArray[np.intp], dtype: type[np.generic]
) -> NDArray[Any]:
    """Join a column for carried-over blocks with the selected rows of a column for all events."""
    first, every = np.asarray(before), np.asarray(of_events)
    found = np.empty(len(first) + len(rows), dtype=dtype)
    found[: len(first)] = first
    # Work in chunks to avoid a full-size temporary.
    for at in range(0, len(rows), _PART):
        some = rows[at : at + _PART]
        found[len(first) + at : len(first) + at + len(some)] = every[some]
    return found
