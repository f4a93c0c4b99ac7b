"""Build the tables `segments` and `blocks` (the final state) and `annotations`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import memreplay._core as _core
from memreplay.export.tables.arrow import dictionary_array, texts
from memreplay.export.tables.batching import slices
from memreplay.export.tables.dictionaries import optional_dictionary, pool_dictionary
from memreplay.snapshot.arrow_columns import numbers

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot


def segment_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name."""
    segments = snap.segments
    types = optional_dictionary(snap, segments.type)
    pools = pool_dictionary(snap)
    for at in slices(0, len(segments)):
        yield {
            "segment_id": numbers(np.arange(at.start, at.stop, dtype=np.uint32)),
            "device": numbers(segments.device[at]),
            "address": numbers(segments.address[at]),
            "bytes": numbers(segments.total_size[at]),
            "allocated_bytes": numbers(segments.allocated_size[at]),
            "active_bytes": numbers(segments.active_size[at]),
            "requested_bytes": numbers(
                segments.requested_size[at], ~segments.has_requested_size[at]
            ),
            "stream": numbers(segments.stream[at]),
            "type": types.column(segments.type[at]),
            "pool": pools.column(segments.pool[at]),
            "stack_id": numbers(segments.stack[at]),
            "is_expandable": numbers(segments.is_expandable[at]),
        }


def block_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name."""
    blocks = snap.blocks
    states = dictionary_array(_core.STATES)
    devices = np.ascontiguousarray(snap.segments.device)
    for at in slices(0, len(blocks)):
        segment = blocks.segment[at]
        yield {
            "segment_id": numbers(segment),
            "device": numbers(devices[segment]),
            "address": numbers(blocks.address[at]),
            "bytes": numbers(blocks.size[at]),
            "requested_bytes": numbers(blocks.requested_size[at], ~blocks.has_requested_size[at]),
            "state": texts(blocks.state[at], states),
            "stack_id": numbers(blocks.stack[at]),
        }


def annotation_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name."""
    annotations = snap.annotations
    if not len(annotations):
        return
    names = optional_dictionary(snap, annotations.name)
    stages = optional_dictionary(snap, annotations.stage)
    for at in slices(0, len(annotations)):
        time = annotations.time_us[at]
        yield {
            "device": numbers(annotations.device[at]),
            "time_us": numbers(time, time == _core.ABSENT_TIME),
            "stage": stages.column(annotations.stage[at]),
            "name": names.column(annotations.name[at]),
        }
