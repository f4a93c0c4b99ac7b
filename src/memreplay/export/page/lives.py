"""Of one device all allocations: from which event to which, with how many bytes, by whom."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.snapshot.columns import view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_NEVER = _core.ABSENT_ID
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
    category: NDArray[np.int64]
    """By the numbers of `Dimensions`' rules, NO_RULE for none."""
    pool: NDArray[np.int64]
    """As `Snapshot.pool_id` takes it; ABSENT_ID where it is not known."""
    stream: NDArray[np.int64]
    """A place in `streams`."""
    streams: tuple[int | None, ...]
    """The streams that there are; the last is None, for those that are not known."""


def lives(snap: Snapshot, replay: Replay, dimensions: Dimensions) -> Lives:
    """The allocations of one device."""
    before, made = _carried(replay), _recorded(snap, replay)
    keys = dimensions.keys(replay.measure("requested"), "category")
    rows = made.pop("row")
    of_events, of_blocks = keys.numbers(
        array("q", rows.tobytes()), array("q", range(len(before["begin"])))
    )
    names = np.asarray(keys.names(), dtype=np.int64)
    category = np.concatenate([np.asarray(of_blocks), np.asarray(of_events)]).astype(np.int64)
    # The numbers of streams may be as large as addresses.
    streams, stream = np.unique(
        np.concatenate([before.pop("stream"), made.pop("stream")]), return_inverse=True
    )
    unknown = before.pop("no_stream") != 0
    stream[: len(unknown)][unknown] = len(streams)
    joined = {name: np.concatenate([before[name], made[name]]) for name in made}
    return Lives(
        category=names[category] if len(category) else category,
        stream=stream.astype(np.int64),
        streams=(*streams.tolist(), None),
        **joined,
    )


def _recorded(snap: Snapshot, replay: Replay) -> dict[str, NDArray[Any]]:
    requested, active = replay.measure("requested").native, replay.measure("active").native
    columns = slice(replay.native.first_row, replay.native.first_row + replay.events)

    def column(name: str, dtype: str) -> NDArray[Any]:
        return view(snap.native.column(name), snap.native.n_events, dtype)[columns]

    rows = np.flatnonzero(column("action", "u1") == _core.ACTIONS.index("alloc"))
    return {
        "row": rows.astype(np.int64),
        "begin": rows.astype(np.int64),
        "end": _moments(requested.ends(), replay)[rows],
        "let_go": _moments(replay.measure("held").native.ends(), replay)[rows],
        "requested": np.asarray(requested.weights())[rows].astype(np.int64),
        "block": np.asarray(active.weights())[rows].astype(np.int64),
        "stack": column("stack", "u4")[rows].astype(np.int64),
        "pool": np.asarray(replay.blocks.pools())[rows].astype(np.int64),
        "stream": column("stream", "u8")[rows].astype(np.uint64),
    }


def _carried(replay: Replay) -> dict[str, NDArray[Any]]:
    requested, active = replay.measure("requested").native, replay.measure("active").native
    # Their pool and stream are those of their segment; the last are blocks outside of every one.
    origins = [*replay.blocks.origins(), (None, 0)]
    pool_of = np.array([_core.ABSENT_ID if one is None else one for one, _ in origins])
    stream_of = np.array([stream for _, stream in origins], dtype=np.uint64)
    origin = np.minimum(np.asarray(replay.blocks.carried_origins()), len(origins) - 1)
    return {
        "begin": np.full(replay.carried_blocks, -1, dtype=np.int64),
        "end": _moments(requested.carried_ends(), replay),
        "let_go": _moments(replay.measure("held").native.carried_ends(), replay),
        "requested": np.asarray(requested.carried_weights()).astype(np.int64),
        "block": np.asarray(active.carried_weights()).astype(np.int64),
        "stack": np.asarray(replay.native.carried("stack")).astype(np.int64),
        "pool": pool_of[origin].astype(np.int64),
        "stream": stream_of[origin],
        "no_stream": origin == len(origins) - 1,
    }


def _moments(ends: Any, replay: Replay) -> NDArray[np.int64]:
    """Events; what never ends does so behind the last one."""
    found = np.asarray(ends).astype(np.int64)
    found[found == _NEVER] = replay.events
    found[found == _GONE] = -1
    return found
