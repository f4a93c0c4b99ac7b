"""All of a device's allocations as columns: beginning, end, bytes and stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import memreplay._core as _core
from memreplay.engine.query._vectors import constant, joined, joined_rows

if TYPE_CHECKING:
    from memreplay.engine.query._vectors import Vector
    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_EMPTY = 0  # the empty stack
# The ends of allocations that are never freed, or were freed before the first event, as i32.
_NEVER = _core.ABSENT_ID - (1 << 32)
_GONE = _NEVER - 1


class Lives(NamedTuple):
    """Columns with a row per allocation: carried-over blocks first, then in event order.

    Events are counted from the device's first selected one. Missing ends come after the last event.
    """

    begin: Vector
    """The event that made the allocation; -1 if carried over."""
    end: Vector
    """The end of an allocation's requested and active bytes: the event that completed the free."""
    let_go: Vector
    """The end of an allocation's held and allocated bytes: the event that requested the free."""
    requested: Vector
    block: Vector
    stack: Vector
    """Stack number, from 0. If there are N stacks, N means no stack, and N + 1 means carried over
    without a stack.
    """
    pool: Vector
    """Index in `Replay.classes("pool")`; 0 if unknown."""
    stream: Vector
    """Index in `Replay.classes("stream")`; 0 if unknown."""
    address: Vector


def lives(snap: Snapshot, replay: Replay) -> Lives:
    """Return one device's allocations."""
    names: tuple[MeasureName, ...] = ("requested", "held", "active")
    requested, held, active = (replay.measure(name).native for name in names)
    pool, stream = replay.classes("pool"), replay.classes("stream")
    rows = (replay.vector("action", "B") == _core.ACTIONS.index("alloc")).rows()
    there = replay.carried_blocks
    carried = replay.native.carried
    stacks = joined_rows(carried("stack"), replay.vector("stack", "I"), rows, "i")
    before, later = stacks[:there], stacks[there:]
    before[before == _EMPTY] = snap.code.stacks + 1
    later[later == _EMPTY] = snap.code.stacks
    return Lives(
        begin=joined([constant(-1, there), rows], "i"),
        end=_moments(requested, rows),
        let_go=_moments(held, rows),
        requested=joined_rows(requested.carried_weights(), requested.weights(), rows, "q"),
        block=joined_rows(active.carried_weights(), active.weights(), rows, "q"),
        stack=stacks,
        pool=joined_rows(pool.of_carried(), pool.of_events(), rows, "i"),
        stream=joined_rows(stream.of_carried(), stream.of_events(), rows, "i"),
        address=joined_rows(carried("address"), replay.vector("address", "Q"), rows, "Q"),
    )


def _moments(measure: Measure, rows: Vector) -> Vector:
    """Return the events at which allocations end, with missing ends after the last event."""
    found = joined_rows(measure.carried_ends(), measure.ends(), rows, "i")
    never, gone = found == _NEVER, found == _GONE
    found[never] = measure.replay.events
    found[gone] = -1
    return found
