"""Batches of the table `usage`: every measure after every event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay import _core
from memreplay._pieces import Pieces
from memreplay.columns import view
from memreplay.tables import batching
from memreplay.tables.arrow import numbers
from memreplay.tables.batching import slices

if TYPE_CHECKING:
    from memreplay.model import MeasureName
    from memreplay.replay import Replay
    from memreplay.snapshot import Snapshot

IN_PIECES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated")


def usage_rows(snap: Snapshot) -> int:
    """A row an event, and one for the start of each device."""
    return sum(snap.replay(device).events + 1 for device in snap.devices)


def usage_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Columns by name, a batch at a time; the start of a device is a batch of one row."""
    for device in snap.devices:
        yield from _of_device(snap, snap.replay(device))


def _of_device(snap: Snapshot, replay: Replay) -> Iterator[dict[str, Any]]:
    usages = [replay.measure(name) for name in IN_PIECES]
    reserved = replay.measure("reserved")
    changes = replay.segment_changes
    start = [usage.start_bytes for usage in usages] + [reserved.start_bytes]
    yield _batch(replay, np.zeros(1, dtype=np.int64), None, [np.array([one]) for one in start])
    pieces = [Pieces(usage.native, batching.ROWS) for usage in usages]
    times = view(snap.native.column("time"), snap.native.n_events, "i8")
    reserved_at = np.concatenate([[reserved.start_bytes], changes.reserved])
    for at in slices(0, replay.events):
        index = np.arange(at.start, at.stop)
        so_far = np.searchsorted(changes.event, index + replay.first_event, side="right")
        row = replay.native.first_row
        series = [np.asarray(piece.next()) for piece in pieces] + [reserved_at[so_far]]
        yield _batch(
            replay, index + replay.first_event, times[row + at.start : row + at.stop], series
        )


def _batch(
    replay: Replay,
    event: np.ndarray[Any, Any],
    time: np.ndarray[Any, Any] | None,
    series: list[np.ndarray[Any, Any]],
) -> dict[str, Any]:
    rows = len(event)
    nothing = np.ones(rows, dtype=bool)
    if time is None:
        time = np.full(rows, _core.ABSENT_TIME)
        missing_event = nothing
    else:
        missing_event = None
    names = (*IN_PIECES, "reserved")
    return {
        "device": numbers(np.full(rows, replay.device, dtype=np.int32)),
        "event": numbers(event, missing_event),
        "time_us": numbers(time, time == _core.ABSENT_TIME),
        **{f"{name}_bytes": numbers(one) for name, one in zip(names, series, strict=True)},
    }
