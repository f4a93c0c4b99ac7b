"""Build the table `usage`: every measure after every event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import memreplay._core as _core
from memreplay.engine.query._pieces import Pieces
from memreplay.export.tables import batching
from memreplay.export.tables.batching import slices
from memreplay.snapshot.arrow_columns import numbers
from memreplay.snapshot.columns import view
from memreplay.snapshot.model import MEASURES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# Measures in which allocations end at the same events, so that only their bytes differ.
_END_ALIKE: tuple[tuple[MeasureName, ...], ...] = (("requested", "active"), ("held", "allocated"))


def usage_rows(snap: Snapshot) -> int:
    """Return the number of rows: one per event and one for the start of each device."""
    return sum(snap.replay(device).events + 1 for device in snap.devices)


def usage_batches(snap: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield batches as columns by name; a device's start is a batch of one row."""
    for device in snap.devices:
        yield from _of_device(snap, snap.replay(device))


def _of_device(snap: Snapshot, replay: Replay) -> Iterator[dict[str, Any]]:
    usages = {name: replay.measure(name) for name in MEASURES}
    start = [np.array([usages[name].start_bytes]) for name in MEASURES]
    yield _batch(replay, np.zeros(1, dtype=np.int64), None, dict(zip(MEASURES, start, strict=True)))
    pieces = [
        (names, Pieces(tuple(usages[name].native for name in names), batching.ROWS))
        for names in _END_ALIKE
    ]
    times = view(snap.native.column("time"), snap.native.n_events, "i8")
    reserved = np.concatenate([start[MEASURES.index("reserved")], replay.segment_changes.reserved])
    changes = np.asarray(replay.segment_changes.event) - replay.first_event
    for at in slices(0, replay.events):
        series: dict[MeasureName, NDArray[np.int64]] = {"reserved": _steps(changes, reserved, at)}
        for names, piece in pieces:
            series.update(zip(names, map(np.asarray, piece.next()), strict=True))
        index = np.arange(at.start, at.stop) + replay.first_event
        row = replay.native.first_row
        yield _batch(replay, index, times[row + at.start : row + at.stop], series)


def _steps(changes: NDArray[np.int64], values: NDArray[np.int64], at: slice) -> NDArray[np.int64]:
    """Expand changes to one value per event in a slice.

    The series starts with `values[0]`. From event `changes[i]` on, the value is `values[i + 1]`.
    """
    first, last = np.searchsorted(changes, (at.start, at.stop))
    upto = np.concatenate([[at.start], changes[first:last], [at.stop]])
    return np.repeat(values[first : last + 1], np.diff(upto))


def _batch(
    replay: Replay,
    event: NDArray[np.int64],
    time: NDArray[np.int64] | None,
    series: Mapping[MeasureName, NDArray[np.int64]],
) -> dict[str, Any]:
    rows = len(event)
    nothing = np.ones(rows, dtype=bool)
    if time is None:
        time = np.full(rows, _core.ABSENT_TIME)
        missing_event = nothing
    else:
        missing_event = None
    return {
        "device": numbers(np.full(rows, replay.device, dtype=np.int32)),
        "event_index": numbers(event, missing_event),
        "time_us": numbers(time, time == _core.ABSENT_TIME),
        **{f"{name}_bytes": numbers(one) for name, one in series.items()},
    }
