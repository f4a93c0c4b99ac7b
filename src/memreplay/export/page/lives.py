"""Of one device all allocations: from which event to which, with how many bytes, by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.snapshot.columns import view

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_NEVER = _core.ABSENT_ID
_EMPTY = 0  # the stack of no frames
_PART = 1 << 15  # rows
_GONE = _core.ABSENT_ID - 1  # an end: let go of before the first event


class Lives(NamedTuple):
    """Columns of int64, a row an allocation: first what was there before the first event, then in
    the order of the events that made them. Events are counted from the device's first that was
    read; what never happened comes behind the last one."""

    begin: NDArray[np.int64]
    """The event that made it; -1 for what was there before."""
    end: NDArray[np.int64]
    """The event that ends it for requested and active bytes: its free was completed."""
    let_go: NDArray[np.int64]
    """The one that ends it for held and allocated bytes: its free was requested."""
    requested: NDArray[np.int64]
    block: NDArray[np.int64]
    stack: NDArray[np.int64]
    """Its number; that of stacks for none, one more for none before the first event."""
    pool: NDArray[np.int64]
    """Its class among `Replay.classes("pool")`; 0 where it is not known."""
    stream: NDArray[np.int64]
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

    def moments(ends: NDArray[Any]) -> None:
        """What never ends does so behind the last event."""
        ends[ends == _NEVER] = replay.events
        ends[ends == _GONE] = -1

    rows = np.flatnonzero(column("action", "u1") == _core.ACTIONS.index("alloc"))
    none = snap.code.stacks
    begin = np.empty(replay.carried_blocks + len(rows), dtype=np.int64)
    begin[: replay.carried_blocks] = -1
    begin[replay.carried_blocks :] = rows
    stacks = _joined(replay.native.carried("stack"), column("stack", "u4"), rows)
    carried = stacks[: replay.carried_blocks]
    carried[carried == _EMPTY] = none + 1
    stacks[stacks == _EMPTY] = none
    return Lives(
        begin=begin,
        end=_joined(requested.carried_ends(), requested.ends(), rows, moments),
        let_go=_joined(held.carried_ends(), held.ends(), rows, moments),
        requested=_joined(requested.carried_weights(), requested.weights(), rows),
        block=_joined(active.carried_weights(), active.weights(), rows),
        stack=stacks,
        pool=_joined(pool.of_carried(), pool.of_events(), rows),
        stream=_joined(stream.of_carried(), stream.of_events(), rows),
        address=_joined(
            replay.native.carried("address"), column("address", "u8"), rows, dtype=np.uint64
        ),
    )


def _joined(
    before: Any,
    of_events: Any,
    rows: NDArray[np.intp],
    change: Callable[[NDArray[Any]], None] | None = None,
    dtype: type[np.int64 | np.uint64] = np.int64,
) -> NDArray[Any]:
    """A column of what was there before, and of these of all events."""
    first, every = np.asarray(before), np.asarray(of_events)
    found = np.empty(len(first) + len(rows), dtype=dtype)
    found[: len(first)] = first
    # A part at a time: what is in between is never in memory as a whole.
    for at in range(0, len(rows), _PART):
        some = rows[at : at + _PART]
        found[len(first) + at : len(first) + at + len(some)] = every[some]
    if change is not None:
        for at in range(0, len(found), _PART):
            change(found[at : at + _PART])
    return found
