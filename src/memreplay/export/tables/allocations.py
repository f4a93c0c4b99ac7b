"""Build the table `allocations` in batches, one row per allocation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.groups.ways.base import Known
from memreplay.export.tables.arrow import dictionary_array, texts
from memreplay.export.tables.batching import slices
from memreplay.export.tables.callers import Callers
from memreplay.export.tables.dictionaries import Words, pool_dictionary
from memreplay.export.tables.ways import WayColumn
from memreplay.snapshot.arrow_columns import numbers
from memreplay.snapshot.columns import view

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

FREED, PENDING, ACTIVE = range(3)
STATES = ("freed", "active_pending_free", "active_allocated")
_NEVER = _core.ABSENT_ID - 1  # end of an allocation that was never freed


def allocation_rows(replay: Replay) -> int:
    """Return the number of allocations and carried-over blocks."""
    return replay.allocations + replay.carried_blocks


def allocation_batches(
    snap: Snapshot, rules: tuple[Rule, ...], *, flat: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name.

    For each device: its carried-over blocks, then its allocations in event order. `flat` adds
    columns for the call site.
    """
    dimensions = Dimensions(Known(snap, rules))
    words = _Spelled(
        states=dictionary_array(STATES),
        pools=pool_dictionary(snap),
        ways={
            name: WayColumn(snap, dimensions, name) for name, way in WAYS.items() if way.recorded
        },
        callers=Callers(snap, dimensions) if flat else None,
    )
    for device in snap.devices:
        yield from _Lifetimes(snap, snap.replay(device), words).batches()


class _Spelled(NamedTuple):
    """The dictionaries of text columns, shared by all devices."""

    states: Any
    pools: Words
    ways: Mapping[str, WayColumn]
    callers: Callers | None


class _Rows(NamedTuple):
    """Allocations as columns.

    `start` is missing for carried-over blocks. Each allocation has two ends: when it was freed, and
    until when the program held it.
    """

    start: np.ndarray[Any, Any] | None
    end: np.ndarray[Any, Any]
    held: np.ndarray[Any, Any]
    address: np.ndarray[Any, Any]
    size: np.ndarray[Any, Any]
    block: np.ndarray[Any, Any]
    stream: Any
    pool: np.ndarray[Any, Any]
    stack: np.ndarray[Any, Any]
    who: dict[str, Any]


class _Lifetimes:
    """One device's allocations."""

    def __init__(self, snap: Snapshot, replay: Replay, words: _Spelled) -> None:
        self.snap = snap
        self.replay = replay
        self.requested = replay.measure("requested")
        self.held = replay.measure("held").native
        self.active = replay.measure("active").native
        self.words = words
        self.pool = np.asarray(replay.blocks.pools())
        rows = slice(replay.native.first_row, replay.native.first_row + replay.events)
        self.columns = {
            name: view(snap.native.column(name), snap.native.n_events, dtype)[rows]
            for name, dtype in (
                ("action", "u1"),
                ("address", "u8"),
                ("size", "i8"),
                ("stack", "u4"),
                ("time", "i8"),
                ("stream", "u8"),
            )
        }

    def batches(self) -> Iterator[dict[str, Any]]:
        native = self.requested.native
        blocks = self.replay.carried_blocks
        if blocks:
            yield from self._carried(blocks)
        ends, held = np.asarray(native.ends()), np.asarray(self.held.ends())
        sizes = np.asarray(self.active.weights())
        alloc = _core.ACTIONS.index("alloc")
        for at in slices(0, self.replay.events):
            rows = np.flatnonzero(self.columns["action"][at] == alloc) + at.start
            if not len(rows):
                continue
            yield self._batch(
                _Rows(
                    start=rows,
                    end=ends[rows],
                    held=held[rows],
                    address=self.columns["address"][rows],
                    size=self.columns["size"][rows],
                    block=sizes[rows],
                    stream=numbers(self.columns["stream"][rows]),
                    pool=self.pool[rows],
                    stack=self.columns["stack"][rows],
                    who=self._who(rows, None),
                )
            )

    def _carried(self, blocks: int) -> Iterator[dict[str, Any]]:
        native = self.replay.native
        # Carried-over blocks get their pool and stream from their segment, allocations from their
        # event. The last entry is for blocks that aren't in any segment.
        origins = [*self.replay.blocks.origins(), (None, 0)]
        pools = [_core.ABSENT_ID if pool is None else pool for pool, _ in origins]
        pool_of = np.array(pools, dtype=np.uint32)
        stream_of = np.array([stream for _, stream in origins], dtype=np.uint64)
        origin = np.minimum(np.asarray(self.replay.blocks.carried_origins()), len(origins) - 1)
        for at in slices(0, blocks):
            rows = np.arange(at.start, at.stop)
            yield self._batch(
                _Rows(
                    start=None,
                    end=np.asarray(self.requested.native.carried_ends())[at],
                    held=np.asarray(self.held.carried_ends())[at],
                    address=np.asarray(native.carried("address"))[at],
                    size=np.asarray(native.carried("size"))[at],
                    block=np.asarray(self.active.carried_weights())[at],
                    stream=numbers(stream_of[origin[at]], origin[at] == len(origins) - 1),
                    pool=pool_of[origin[at]],
                    stack=np.asarray(native.carried("stack"))[at],
                    who=self._who(None, rows),
                )
            )

    def _who(
        self, events: np.ndarray[Any, Any] | None, blocks: np.ndarray[Any, Any] | None
    ) -> dict[str, Any]:
        """Return the purpose of allocations or carried-over blocks and, for flat tables, their call
        site.
        """
        found = {
            name: column.column(self.requested, events, blocks)
            for name, column in self.words.ways.items()
        }
        if self.words.callers is not None:
            found.update(self.words.callers.columns(self.requested, events, blocks))
        return found

    def _batch(self, one: _Rows) -> dict[str, Any]:
        start, end, held = one.start, one.end, one.held
        rows = len(end)
        freed = end != _core.ABSENT_ID
        state = np.where(freed, FREED, np.where(held != _core.ABSENT_ID, PENDING, ACTIVE))
        begin = np.full(rows, _core.ABSENT_ID, dtype=np.uint32) if start is None else start
        # Without a free_requested event, the program holds the allocation until free_completed.
        asked = np.where(held == end, _core.ABSENT_ID, held)
        return {
            "device": numbers(np.full(rows, self.replay.device, dtype=np.int32)),
            "address": numbers(one.address),
            "bytes": numbers(one.size),
            "block_bytes": numbers(one.block),
            **self._moment("alloc_event", "alloc_us", begin),
            **self._moment("free_requested_event", "free_requested_us", asked),
            **self._moment("free_event", "free_us", end),
            "stream": one.stream,
            "pool": self.words.pools.column(one.pool),
            "stack_id": numbers(one.stack),
            "state": texts(state, self.words.states),
            "carried_over": numbers(np.full(rows, start is None)),
            **one.who,
        }

    def _moment(self, event: str, time: str, at: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Return columns with an event and its time; null if the event isn't in the trace."""
        missing = at >= _NEVER
        rows = np.where(missing, 0, at).astype(np.int64)
        if self.replay.events:
            times = self.columns["time"][rows]
        else:
            times = np.full(len(rows), _core.ABSENT_TIME)
        return {
            event: numbers(rows + self.replay.first_event, missing),
            time: numbers(times, missing | (times == _core.ABSENT_TIME)),
        }
