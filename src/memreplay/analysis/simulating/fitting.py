"""The smallest card that a program fits on, and the settings that it needs for that."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.simulating.searching import candidates, cost, on_threads, prepare
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.replay import Replay

STEP = 2 << 20  # bytes: what the driver hands memory out by
ROOMY = 1 << 60  # more than any program needs


class Smallest(NamedTuple):
    """What a program needs with some settings: with 2 MiB less a request fails."""

    settings: AllocatorSettings
    total_bytes: int


def smallest(replay: Replay, settings: AllocatorSettings) -> Smallest:
    """With these settings. Between two sizes of which the smaller one fails and the larger one does
    the steps are halved; that all above it do, too, is likely, and not sure.

    Raises UsageError where no card is large enough, as with a memory fraction of 0.
    """
    whole = settings._replace(memory_fraction=None)
    peak = replay.simulate(whole, total_bytes=ROOMY).outcome.reserved_peak_bytes
    high = -(-peak // STEP)
    if settings.memory_fraction is None or high == 0:
        return _between(replay, settings, 0, high)
    # The program has a part of the card alone, and what is collected depends on that.
    high = int(min(high / max(settings.memory_fraction, 1e-9), ROOMY // STEP))
    while not _fits(replay, settings, high):
        if high >= ROOMY // STEP:
            part = f"per_process_memory_fraction:{settings.memory_fraction:g}"
            raise UsageError(f"with {part} no card is large enough")
        high = min(2 * high, ROOMY // STEP)
    return _between(replay, settings, 0, high)


def smallest_of_all(replay: Replay, start: Smallest) -> Smallest:
    """With any of the `candidates` for the settings of `start`; of equal ones the first, which is
    `start`."""
    prepare(replay)
    best = start
    lock = threading.Lock()

    def work(settings: AllocatorSettings) -> Smallest | None:
        nonlocal best
        most = best.total_bytes
        if most < STEP or not _fits(replay, settings, most // STEP - 1):
            return None
        high = most // STEP - 1
        if settings.memory_fraction is None:
            peak = replay.simulate(settings, total_bytes=ROOMY).outcome.reserved_peak_bytes
            high = min(high, -(-peak // STEP))
        found = _between(replay, settings, 0, high)
        with lock:
            if found.total_bytes < best.total_bytes:
                best = found
        return found

    others = [one for one in candidates(start.settings) if one != start.settings]
    found = on_threads(work, others)
    least = min((one.total_bytes for one in found if one is not None), default=best.total_bytes)
    if least >= start.total_bytes:
        return start
    # Of those that need as little the best, whichever thread came first.
    equal = [one for one in found if one is not None and one.total_bytes == least]
    equal.sort(
        key=lambda one: cost(replay.simulate(one.settings, total_bytes=least), start.settings)
    )
    return equal[0]


def _between(replay: Replay, settings: AllocatorSettings, low: int, high: int) -> Smallest:
    """In steps: `high` is known to suffice."""
    while low < high:
        middle = (low + high) // 2
        if _fits(replay, settings, middle):
            high = middle
        else:
            low = middle + 1
    return Smallest(settings, high * STEP)


def _fits(replay: Replay, settings: AllocatorSettings, steps: int) -> bool:
    return steps > 0 and replay.simulate(settings, total_bytes=steps * STEP).fits
