"""Build the table `events`: all events of all devices, in file order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import memreplay._core as _core
from memreplay.export.tables.batching import slices
from memreplay.export.tables.dictionaries import (
    code_dictionary,
    metadata_dictionary,
    pool_dictionary,
)
from memreplay.snapshot.arrow_columns import numbers

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot


def event_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name; a batch never spans two devices."""
    events = snap.events
    actions = code_dictionary(snap.action_name, 256)
    contexts = metadata_dictionary(snap, events.compile_context)
    metadata = metadata_dictionary(snap, events.user_metadata)
    pools = pool_dictionary(snap)
    ooms = snap.ooms.event
    for device, first, rows, _ in snap.native.traces():
        base = snap.replay(device).first_event if rows else 0
        for at in slices(first, first + rows):
            size = at.stop - at.start
            time = events.time_us[at]
            free = np.zeros(size, dtype=np.int64)
            said = np.zeros(size, dtype=bool)
            some = slice(*np.searchsorted(ooms, (at.start, at.stop)))
            free[ooms[some] - at.start] = snap.ooms.device_free[some]
            said[ooms[some] - at.start] = True
            yield {
                "device": numbers(np.full(size, device, dtype=np.int32)),
                "event_index": numbers(np.arange(size) + (at.start - first + base)),
                "action": actions.column(events.action[at]),
                "address": numbers(events.address[at]),
                "bytes": numbers(events.size[at]),
                "time_us": numbers(time, time == _core.ABSENT_TIME),
                "stream": numbers(events.stream[at]),
                "stack_id": numbers(events.stack[at]),
                "pool": pools.column(events.pool[at]),
                "compile_context": contexts.column(events.compile_context[at]),
                "user_metadata": metadata.column(events.user_metadata[at]),
                "device_free_bytes": numbers(free, ~said),
            }
