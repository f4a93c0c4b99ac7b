"""Of one device all allocations: from which event to which, with how many bytes, by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.snapshot.columns import view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_NEVER = _core.ABSENT_ID
_EMPTY = 0  # the stack of no frames
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
    before, made = _carried(snap, replay), _recorded(snap, replay)
    return Lives(**{name: np.concatenate([before[name], made[name]]) for name in Lives._fields})


def _recorded(snap: Snapshot, replay: Replay) -> dict[str, NDArray[Any]]:
    requested, active = replay.measure("requested").native, replay.measure("active").native
    columns = slice(replay.native.first_row, replay.native.first_row + replay.events)

    def column(name: str, dtype: str) -> NDArray[Any]:
        return view(snap.native.column(name), snap.native.n_events, dtype)[columns]

    rows = np.flatnonzero(column("action", "u1") == _core.ACTIONS.index("alloc"))
    return {
        "begin": rows.astype(np.int64),
        "end": _moments(np.asarray(requested.ends())[rows], replay),
        "let_go": _moments(np.asarray(replay.measure("held").native.ends())[rows], replay),
        "requested": np.asarray(requested.weights())[rows].astype(np.int64),
        "block": np.asarray(active.weights())[rows].astype(np.int64),
        "stack": _stacks(column("stack", "u4")[rows], snap.code.stacks),
        "pool": np.asarray(replay.classes("pool").of_events())[rows].astype(np.int64),
        "stream": np.asarray(replay.classes("stream").of_events())[rows].astype(np.int64),
        "address": column("address", "u8")[rows].astype(np.uint64),
    }


def _carried(snap: Snapshot, replay: Replay) -> dict[str, NDArray[Any]]:
    requested, active = replay.measure("requested").native, replay.measure("active").native
    return {
        "begin": np.full(replay.carried_blocks, -1, dtype=np.int64),
        "end": _moments(requested.carried_ends(), replay),
        "let_go": _moments(replay.measure("held").native.carried_ends(), replay),
        "requested": np.asarray(requested.carried_weights()).astype(np.int64),
        "block": np.asarray(active.carried_weights()).astype(np.int64),
        "stack": _stacks(replay.native.carried("stack"), snap.code.stacks + 1),
        "pool": np.asarray(replay.classes("pool").of_carried()).astype(np.int64),
        "stream": np.asarray(replay.classes("stream").of_carried()).astype(np.int64),
        "address": np.asarray(replay.native.carried("address")).astype(np.uint64),
    }


def _stacks(found: Any, none: int) -> NDArray[np.int64]:
    """The numbers of stacks, `none` instead of that of no frames."""
    stacks = np.asarray(found).astype(np.int64)
    stacks[stacks == _EMPTY] = none
    return stacks


def _moments(ends: Any, replay: Replay) -> NDArray[np.int64]:
    """Events; what never ends does so behind the last one."""
    found = np.asarray(ends).astype(np.int64)
    found[found == _NEVER] = replay.events
    found[found == _GONE] = -1
    return found
