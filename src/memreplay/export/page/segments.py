"""A device's segments over time, as columns of pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import memreplay._core as _core
from memreplay.analysis.groups.mapped import pool_of
from memreplay.engine.query._vectors import chosen, counting, joined, vector, zeros

if TYPE_CHECKING:
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay

DEFAULT_POOL = (0, 0)
EXPANDABLE, SMALL = 1, 2  # bits in `Pieces.kind`
_SMALL_SEGMENT = 2 << 20  # must match engine/replay/sizes.pxd
_MAP = _core.ACTIONS.index("segment_map")
_UNMAP = _core.ACTIONS.index("segment_unmap")


class Pieces(NamedTuple):
    """Columns with a row per piece, ordered by `begin`, then address."""

    begin: Vector
    """The event that reserved the piece; -1 if carried over."""
    end: Vector
    """The event that released the piece; past the last event if there is none."""
    address: Vector
    size: Vector
    segment: Vector
    """Adjacent pieces with the same number form a segment, unless their known pools differ."""
    pool: Vector
    """Index in `pools_of`."""
    stream: Vector
    """Index in `Replay.classes("stream")`; 0 if unknown."""
    kind: Vector
    """`EXPANDABLE`: mapped piece by piece. `SMALL`: for requests of up to 1 MiB."""


def pools_of(replay: Replay) -> tuple[tuple[int, int] | None, ...]:
    """Return a device's pools: None first, the known classes, and the default pool."""
    pools = tuple(map(replay.pool_of, replay.classes("pool").keys()))
    return pools if DEFAULT_POOL in pools else (*pools, DEFAULT_POOL)


def pieces(replay: Replay) -> Pieces | None:
    """Return all pieces of a device.

    Returns None if the pieces don't add up to the reserved memory, which happens if segment events
    map or unmap the same memory twice.
    """
    start, stop, begin, end, source = map(vector, replay.reserved.reservations())
    size = (stop - start).as_format("q")
    if not _adds_up(replay, begin, end, size):
        return None
    order = start.order()
    order = order[begin[order].order()]
    of = _Sources(replay)
    source = source[order]
    pool = of.pool[source]
    return Pieces(
        begin=begin[order],
        end=end[order],
        address=start[order],
        size=size[order],
        segment=of.segment[source],
        pool=chosen(pool == 0, _unknown_pool(replay), pool),
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

    def __init__(self, replay: Replay) -> None:
        regions = replay.reserved.regions()
        changes = replay.segment_changes
        expandable = joined([[one[5] for one in regions], changes.action.is_in([_MAP, _UNMAP])])
        is_small = abs(changes.bytes) == _SMALL_SEGMENT
        small = joined([[one[4] for one in regions], is_small])
        self.kind: Vector = expandable * EXPANDABLE + small * SMALL
        self.pool = _classes(replay, "pool", [one for one, _ in replay.blocks.origins()])
        self.stream = _classes(replay, "stream", [one[2] for one in regions])
        # An expandable piece is merged with its neighbours on the same stream.
        count = len(expandable)
        self.segment = chosen(expandable != 0, count + self.stream, counting(count))


def _classes(replay: Replay, by: str, at_start: list[Any]) -> Vector:
    """Return the classes of initial regions and segment events."""
    classes = replay.classes(by)
    numbers = {key: number for number, key in enumerate(classes.keys())}
    before = [numbers[one] for one in at_start[: len(replay.reserved.regions())]]
    of_events = vector(classes.of_events())
    return joined([before, of_events[vector(replay.reserved.events())]])


def _adds_up(replay: Replay, begin: Vector, end: Vector, size: Vector) -> bool:
    """Return whether the pieces always add up to the reserved memory."""
    changes = replay.segment_changes
    at = changes.event - replay.first_event
    # The start sorts before all events, and missing ends sort after them.
    sums = zeros(len(at) + 2)
    sums.add_at(chosen(begin < 0, 0, at.places(begin) + 1), size)
    sums.add_at(at.places(end) + 1, -size)
    sums = sums.sums()[:-1]
    start = replay.measure("reserved").start_bytes
    return sums[0] == start and (sums[1:] == changes.reserved).all()
