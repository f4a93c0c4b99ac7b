"""Samples of the card's memory, by the moments of the page that have them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from memreplay.export.page.coding import MOST
from memreplay.export.page.records import PageOutside
from memreplay.snapshot.recorded_memory import card_samples

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


def outside_of(snap: Snapshot, replay: Replay) -> PageOutside | None:
    """Return a device's samples; None without any, or if JavaScript can't hold the numbers."""
    samples = {one.device: one for one in card_samples(snap)}.get(replay.device)
    if samples is None or replay.time_range is None:
        return None
    if max(samples.total_bytes, *samples.times_us) > MOST:
        return None
    # Of samples of the same time, the first one counts, as in `CardSamples.closest`.
    first_at: dict[int, int] = {}
    for at, time in enumerate(samples.times_us):
        first_at.setdefault(time, at)
    times = sorted(first_at)
    order = [first_at[time] for time in times]
    middles = [(one + other) // 2 for one, other in pairwise(times)]
    first = replay.time_range[0]
    return PageOutside(
        total_bytes=samples.total_bytes,
        moments=(0, *(_first_after(replay, middle) for middle in middles)),
        times_us=tuple(time - first for time in times),
        free_bytes=tuple(samples.free_bytes[at] for at in order),
        outside_bytes=tuple(map(samples.outside, order)),
        other_bytes=tuple(samples.other_bytes[at] for at in order),
    )


def _first_after(replay: Replay, time: int) -> int:
    """Return the first moment after a time. The start has the first event's time."""
    assert replay.time_range is not None
    if time < replay.time_range[0]:
        return 0
    clock = replay.clock
    return (replay.events if clock is None else bisect_right(clock, time)) + 1
