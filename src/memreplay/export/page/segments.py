"""A device's segments over time, as columns of pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.analysis.groups.mapped import pool_of
from memreplay.snapshot.columns import view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

DEFAULT_POOL = (0, 0)
EXPANDABLE, SMALL = 1, 2  # bits in `Pieces.kind`
_SMALL_SEGMENT = 2 << 20  # must match engine/replay/sizes.pxd
_MAP = _core.ACTIONS.index("segment_map")
_UNMAP = _core.ACTIONS.index("segment_unmap")


class Pieces(NamedTuple):
    """int64 columns with a row per piece, ordered by `begin`, then address."""

    begin: NDArray[np.int64]
    """The event that reserved the piece; -1 if carried over."""
    end: NDArray[np.int64]
    """The event that released the piece; past the last event if there is none."""
    address: NDArray[np.uint64]
    size: NDArray[np.int64]
    segment: NDArray[np.int64]
    """Adjacent pieces with the same number form a segment, unless their known pools differ."""
    pool: NDArray[np.int64]
    """Index in `pools_of`."""
    stream: NDArray[np.int64]
    """Index in `Replay.classes("stream")`; 0 if unknown."""
    kind: NDArray[np.int64]
    """`EXPANDABLE`: mapped piece by piece. `SMALL`: for requests of up to 1 MiB."""


def pools_of(replay: Replay) -> tuple[tuple[int, int] | None, ...]:
    """Return a device's pools: None first, the known classes, and the default pool."""
    pools = tuple(map(replay.pool_of, replay.classes("pool").keys()))
    return pools if DEFAULT_POOL in pools else (*pools, DEFAULT_POOL)


def pieces(snap: Snapshot, replay: Replay) -> Pieces | None:
    """Return all pieces of a device.

    Returns None if the pieces don't add up to the reserved memory, which happens if segment events
    map or unmap the same memory twice.
    """
    start, stop, begin, end, source = map(np.asarray, replay.reserved.reservations())
    size = (stop - start).astype(np.int64)
    if not _adds_up(replay, begin, end, size):
        return None
    order = np.lexsort((start, begin))
    of = _Sources(snap, replay)
    source = source[order]
    return Pieces(
        begin=begin[order],
        end=end[order],
        address=start[order],
        size=size[order],
        segment=of.segment[source],
        pool=np.where(of.pool[source] == 0, _unknown_pool(replay), of.pool[source]),
        stream=of.stream[source],
        kind=of.kind[source],
    )


def _unknown_pool(replay: Replay) -> int:
    """Return the index for segments whose pool is unknown, which is the default pool if the file
    has no others.
    """
    return pools_of(replay).index(pool_of(replay, replay.block_map(replay.start), None))


class _Sources:
    """Where memory comes from: the initial regions, then the segment events.

    Each has a pool class, a stream class, a segment number and a kind.
    """

    def __init__(self, snap: Snapshot, replay: Replay) -> None:
        regions = replay.reserved.regions()
        at = np.asarray(replay.reserved.events()).astype(np.int64)
        first = replay.native.first_row
        action, size = (
            view(snap.native.column(name), snap.native.n_events, dtype)[first + at]
            for name, dtype in (("action", "u1"), ("size", "i8"))
        )
        expandable = np.concatenate(
            [
                np.array([one[5] for one in regions], dtype=bool),
                (action == _MAP) | (action == _UNMAP),
            ]
        )
        small = np.concatenate(
            [np.array([one[4] for one in regions], dtype=bool), size == _SMALL_SEGMENT]
        )
        self.kind = np.where(expandable, EXPANDABLE, 0) + np.where(small, SMALL, 0)
        self.pool = _classes(replay, "pool", [one for one, _ in replay.blocks.origins()], at)
        self.stream = _classes(replay, "stream", [one[2] for one in regions], at)
        # An expandable piece is merged with its neighbours on the same stream.
        count = len(expandable)
        self.segment = np.where(expandable, count + self.stream, np.arange(count))


def _classes(replay: Replay, by: str, at_start: list[Any], at: NDArray[Any]) -> NDArray[np.int64]:
    """Return the classes of initial regions and segment events."""
    classes = replay.classes(by)
    numbers = {key: number for number, key in enumerate(classes.keys())}
    before = [numbers[one] for one in at_start[: len(replay.reserved.regions())]]
    of_events = np.asarray(classes.of_events())[at]
    return np.concatenate([np.array(before, dtype=np.int64), of_events.astype(np.int64)])


def _adds_up(
    replay: Replay, begin: NDArray[Any], end: NDArray[Any], size: NDArray[np.int64]
) -> bool:
    """Return whether the pieces always add up to the reserved memory."""
    changes = replay.segment_changes
    at = changes.event - replay.first_event
    # The start sorts before all events, and missing ends sort after them.
    sums = np.zeros(len(at) + 2, dtype=np.int64)
    np.add.at(sums, np.where(begin < 0, 0, np.searchsorted(at, begin) + 1), size)
    np.add.at(sums, np.searchsorted(at, end) + 1, -size)
    sums = np.cumsum(sums)[:-1]
    start = replay.measure("reserved").start_bytes
    return bool(sums[0] == start and np.array_equal(sums[1:], changes.reserved))
