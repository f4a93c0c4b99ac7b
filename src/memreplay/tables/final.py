"""Batches of the tables that say how it ended: `segments`, `blocks`; and of `annotations`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay import _core
from memreplay.tables.arrow import BATCH_ROWS, numbers, texts, words_array
from memreplay.tables.words import pool_words, string_words

if TYPE_CHECKING:
    from memreplay.snapshot import Snapshot


def _slices(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BATCH_ROWS):
        yield slice(start, min(start + BATCH_ROWS, rows))


def segment_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Columns by name, BATCH_ROWS at a time."""
    segments = snap.segments
    types = string_words(snap, segments.type)
    pools = pool_words(snap)
    for at in _slices(len(segments)):
        kind = segments.type[at]
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
            "type": types.column(np.where(kind == 0, _core.ABSENT_ID, kind)),
            "pool": pools.column(segments.pool[at]),
            "stack_id": numbers(segments.stack[at]),
            "is_expandable": numbers(segments.is_expandable[at]),
        }


def block_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Columns by name, BATCH_ROWS at a time."""
    blocks = snap.blocks
    states = words_array(_core.STATES)
    devices = np.ascontiguousarray(snap.segments.device)
    for at in _slices(len(blocks)):
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
    """Columns by name, BATCH_ROWS at a time."""
    annotations = snap.annotations
    if not len(annotations):
        return
    names = string_words(snap, annotations.name)
    stages = string_words(snap, annotations.stage)
    for at in _slices(len(annotations)):
        time = annotations.time_us[at]
        yield {
            "device": numbers(annotations.device[at]),
            "time_us": numbers(time, time == _core.ABSENT_TIME),
            "stage": stages.column(annotations.stage[at]),
            "name": names.column(annotations.name[at]),
        }
