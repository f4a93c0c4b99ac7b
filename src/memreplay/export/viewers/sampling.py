"""Sample a series without losing its peaks: the minimum, maximum and last value of each bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.engine.query._vectors import Vector, chosen, counting, joined, vector, zeros

if TYPE_CHECKING:
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


def event_ns(replay: Replay, origin_us: int | None) -> Vector:
    """Return each event's time in nanoseconds since `origin_us`, never decreasing.

    Without times (None), an event counts 1 microsecond, and the first is at 1.

    Events in the same microsecond are spread over it in order; if there are more than 1,000, the
    rest share its last nanosecond.
    """
    if origin_us is None or replay.clock_column is None:
        return (counting(replay.events) + 1) * US
    clock = vector(replay.clock_column)
    bounds = replay.time_range
    assert bounds is not None
    clock = chosen(clock == _core.ABSENT_TIME, bounds[0], clock)
    within = _within(clock)
    # The difference between any two int64 values fits in a uint64.
    since = (clock.as_format("Q") - (origin_us & 2**64 - 1)).lower(_LAST_NS // US).as_format("q")
    return since * US + within


def _within(clock: Vector) -> Vector:
    """Return each event's nanoseconds within its microsecond. Large columns take 4 bytes per
    event.
    """
    fresh = zeros(len(clock), "?")
    fresh[:1] = 1
    fresh[1:] = clock[1:] != clock[:-1]
    first = fresh.rows()
    counts = (joined([first[1:], [len(clock)]], "I") - first).as_format("I")
    steps = vector([US // max(count, 1) for count in range(US + 1)], "I")[counts.lower(US)]
    group = (fresh.sums() - 1).as_format("I")
    rank = counting(len(clock)) - first[group]
    return (rank * steps[group]).lower(US - 1).as_format("I")


def sampled(series: Vector, start: int, at_ns: Vector, points: int) -> Vector:
    """Return the indices of events that represent the series, in ascending order.

    Time is cut into `points` equal parts. Each part contributes three events: the first at the
    part's minimum, the first at its maximum, and the last. If `points` is 0, all events are used.
    Events that change nothing are dropped, except for the last one. `start`: the value before the
    first event.
    """
    count = len(series)
    if count == 0:
        return zeros(0)
    if points == 0 or count <= 3 * points:
        return _changes(series, start).rows()
    begin, whole = at_ns[0], at_ns[-1] - at_ns[0] + 1
    edges = [begin + whole * i // points for i in range(points)]
    starts = at_ns.places(edges).distinct()
    last = joined([starts[1:], [count]]) - 1
    events = joined([*series.extremes(starts), last]).distinct()
    return events[_changes(series[events], start)]


def _changes(values: Vector, start: int) -> Vector:
    """Return which values differ from the previous one. The last one counts as different."""
    found = values != joined([[start], values[:-1]])
    found[-1] = 1
    return found
