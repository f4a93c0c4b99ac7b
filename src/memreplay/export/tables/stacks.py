"""Build the tables `stacks` and `frames`, referenced by stack_id and frame_id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.analysis.code.plumbing import LIBRARY, USER, ranks
from memreplay.export.tables.batching import slices
from memreplay.export.tables.dictionaries import optional_dictionary, string_dictionary
from memreplay.snapshot.arrow_columns import arrow, numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.snapshot import Snapshot


def _rank(snap: Snapshot) -> NDArray[np.uint8]:
    """Classify each frame by its file: USER, LIBRARY or higher. Shape (frames,), uint8."""
    by_file, _ = ranks(snap.code, snap.project)
    found: NDArray[np.uint8] = np.frombuffer(by_file, dtype=np.uint8)[snap.frames.file]
    return found


def frame_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name."""
    frames = snap.frames
    if not len(frames):
        return
    user = _rank(snap) == USER
    fx = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
    words = {name: string_dictionary(snap, getattr(frames, name)) for name in ("function", "file")}
    words |= {name: optional_dictionary(snap, getattr(frames, name)) for name in fx}
    for at in slices(0, len(frames)):
        columns = {
            "frame_id": numbers(np.arange(at.start, at.stop, dtype=np.uint32)),
            "line": numbers(frames.line[at]),
            "is_user": numbers(user[at]),
        }
        for name, found in words.items():
            columns[name] = found.column(getattr(frames, name)[at])
        yield columns


def stack_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name."""
    pa = arrow()
    offsets, frames = snap.stacks.offsets, snap.stacks.frames
    rank = _rank(snap) if len(snap.frames) else np.zeros(0, dtype=np.uint8)
    for at in slices(0, len(snap.stacks)):
        bounds = offsets[at.start : at.stop + 1]
        ids = frames[bounds[0] : bounds[-1]]
        innermost = np.zeros(len(bounds) - 1, dtype=np.uint32)
        has = np.zeros(len(bounds) - 1, dtype=bool)
        for whose in (LIBRARY, USER):  # user frames take precedence over library frames
            own = np.flatnonzero(rank[ids] == whose) + bounds[0]
            first = np.searchsorted(own, bounds[:-1])
            its = first < np.searchsorted(own, bounds[1:])
            innermost[its] = frames[own[first[its]]]
            has |= its
        lists = pa.ListArray.from_arrays(
            numbers((bounds - bounds[0]).astype(np.int32)),
            numbers(ids),
            type=pa.list_(pa.field("element", pa.uint32(), nullable=False)),
        )
        yield {
            "stack_id": numbers(np.arange(at.start, at.stop, dtype=np.uint32)),
            "user_frame_id": numbers(innermost, ~has),
            "frame_ids": lists,
        }
