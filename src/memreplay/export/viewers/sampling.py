"""Sample a series without losing its peaks: the minimum, maximum and last value of each bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import memreplay._core as _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.replay import Replay

US = 1_000  # in nanoseconds
_LAST_NS = 2**61  # about 73 years; later times are bogus


def is_timed(replay: Replay) -> bool:
    """Return whether a device's events have different times."""
    bounds = replay.time_range
    return bounds is not None and bounds[0] != bounds[1]


def untimed_note(replay: Replay) -> tuple[str, ...]:
    """Return the note for output that shows event numbers instead of times."""
    if replay.events == 0 or is_timed(replay):
        return ()
    why = "have no times" if replay.time_range is None else "all have the same time"
    return (f"device {replay.device}: its events {why}, so each event takes 1 us",)


def event_ns(replay: Replay, origin_us: int | None) -> NDArray[np.int64]:
    """Return each event's time in nanoseconds since `origin_us`, never decreasing. Shape (events,).

    Without times (None), an event counts 1 microsecond, and the first is at 1.

    Events in the same microsecond are spread over it in order; if there are more than 1,000, the
    rest share its last nanosecond.
    """
    if origin_us is None or replay.clock_column is None:
        return np.arange(1, replay.events + 1, dtype=np.int64) * US
    clock = np.asarray(replay.clock_column)
    bounds = replay.time_range
    assert bounds is not None
    clock = np.where(clock == _core.ABSENT_TIME, bounds[0], clock)
    # The difference between any two int64 values fits in a uint64.
    origin = np.uint64(origin_us & 2**64 - 1)
    since = np.minimum(clock.view(np.uint64) - origin, np.uint64(_LAST_NS // US)).astype(np.int64)
    fresh = np.empty(len(clock), dtype=bool)
    fresh[:1] = True
    np.not_equal(clock[1:], clock[:-1], out=fresh[1:])
    first = np.flatnonzero(fresh)
    counts = np.diff(first, append=len(clock))
    rank = np.arange(len(clock)) - np.repeat(first, counts)
    step = np.repeat(np.maximum(US // counts, 1), counts)
    spread: NDArray[np.int64] = since * US + np.minimum(rank * step, US - 1)
    return spread


def sampled(
    series: NDArray[np.int64], start: int, at_ns: NDArray[np.int64], points: int
) -> NDArray[np.intp]:
    """Return the indices of events that represent the series, in ascending order.

    Time is cut into `points` equal parts. Each part contributes three events: the first at the
    part's minimum, the first at its maximum, and the last. If `points` is 0, all events are used.
    Events that change nothing are dropped, except for the last one. `start`: the value before the
    first event.
    """
    count = len(series)
    if count == 0:
        return np.zeros(0, dtype=np.intp)
    if points == 0 or count <= 3 * points:
        chosen = np.arange(count)
    else:
        begin, whole = int(at_ns[0]), int(at_ns[-1]) - int(at_ns[0]) + 1
        edges = [begin + whole * i // points for i in range(points)]
        starts = np.unique(np.searchsorted(at_ns, np.array(edges, dtype=np.int64)))
        lengths = np.diff(starts, append=count)
        lowest = _first(series, np.minimum.reduceat(series, starts), starts, lengths)
        highest = _first(series, np.maximum.reduceat(series, starts), starts, lengths)
        chosen = np.unique(np.concatenate([lowest, highest, starts + lengths - 1]))
    values = series[chosen]
    keep = values != np.concatenate([[start], values[:-1]])
    keep[-1] = True
    found: NDArray[np.intp] = chosen[keep]
    return found


def _first(
    series: NDArray[np.int64],
    wanted: NDArray[np.int64],
    starts: NDArray[np.intp],
    lengths: NDArray[np.intp],
) -> NDArray[np.intp]:
    """Return the first index with the wanted value in each part."""
    places = np.flatnonzero(series == np.repeat(wanted, lengths))
    found: NDArray[np.intp] = places[np.searchsorted(places, starts)]
    return found
