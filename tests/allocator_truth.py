"""What the model of the allocator (allocator.py) knows to be true of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from tests.allocator_blocks import Change, PoolId
from tests.build import Entry

MEASURES = ("requested", "held", "active", "allocated", "reserved")
NO_CHANGE: Change = (0, 0, 0, 0, 0)


class Recorded(NamedTuple):
    """An event and its effect on the measures of one pool on one stream."""

    event: Entry
    change: Change
    pool: PoolId
    stream: int
    block_size: int  # for alloc and frees; otherwise 0


class KnownBlock(NamedTuple):
    """A carried-over block. `pending`: its free was requested before the first event."""

    addr: int
    size: int
    requested: int
    pool: PoolId
    stream: int
    pending: bool = False


@dataclass
class Truth:
    """The true effects and causes of one device's events."""

    start: dict[tuple[PoolId, int], Change]  # by pool and stream
    recorded: list[Recorded]  # one per event in the trace
    blocks: dict[int, KnownBlock]  # by index of the alloc event
    carried: dict[int, KnownBlock]  # by address: live before the first event
    dropped: int = 0  # events lost from the ring buffer

    def start_of(self, measure: str, pool: PoolId | None = None, stream: int | None = None) -> int:
        """Return a measure before the first event: the total, or the part in a pool, on a stream,
        or both.
        """
        at = MEASURES.index(measure)
        return sum(
            values[at]
            for (its_pool, its_stream), values in self.start.items()
            if pool in (None, its_pool) and stream in (None, its_stream)
        )

    def series(
        self, measure: str, pool: PoolId | None = None, stream: int | None = None
    ) -> list[int]:
        """Return the measure after each event."""
        at = MEASURES.index(measure)
        changes = [
            one.change[at] if pool in (None, one.pool) and stream in (None, one.stream) else 0
            for one in self.recorded
        ]
        return list(accumulate(changes, initial=self.start_of(measure, pool, stream)))[1:]

    def pools(self) -> set[PoolId]:
        return {pool for pool, _ in self.start} | {one.pool for one in self.recorded}

    def streams(self) -> set[int]:
        return {stream for _, stream in self.start} | {one.stream for one in self.recorded}


def truth_of(history: Sequence[Recorded], first: int) -> Truth:
    """Return the truth for a trace that starts with the event at this index."""
    start: dict[tuple[PoolId, int], Change] = {}
    live: dict[int, KnownBlock] = {}
    for one in history[:first]:
        key = one.pool, one.stream
        if one.change != NO_CHANGE:
            was, plus = start.get(key, NO_CHANGE), one.change
            start[key] = tuple(was[i] + plus[i] for i in range(5))  # type: ignore[assignment]
        action = one.event["action"]
        if action == "alloc":
            block = _known(one)
            live[block.addr] = block
        elif action == "free_requested":
            live[one.event["addr"]] = live[one.event["addr"]]._replace(pending=True)
        elif action == "free_completed":
            del live[one.event["addr"]]
    recorded = list(history[first:])
    blocks = {i: _known(one) for i, one in enumerate(recorded) if one.event["action"] == "alloc"}
    return Truth(start, recorded, blocks, live)


def _known(one: Recorded) -> KnownBlock:
    return KnownBlock(one.event["addr"], one.block_size, one.event["size"], one.pool, one.stream)
