"""Find the smallest card that a program fits on, and the settings for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.simulating.searching import candidates, cost, on_threads, prepare
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated

STEP = 2 << 20  # bytes: the driver's allocation granularity
BESIDE = 2  # number of settings that are bisected at the same time
ROOMY = 1 << 60  # size of a card with more memory than any program needs, in bytes


class Smallest(Struct, frozen=True):
    """The smallest card on which the program fits with some settings. With 2 MiB less, a request
    fails.
    """

    settings: AllocatorSettings
    program_memory_bytes: int


def smallest(replay: Replay, settings: AllocatorSettings) -> Smallest:
    """Find the smallest card for these settings by bisection.

    All larger cards probably fit, too, but that isn't certain. Raises UsageError if no card is
    large enough, as with a memory fraction of 0.
    """
    high = _roomy(replay, settings)
    if settings.memory_fraction is not None and high:
        # The program may use only this fraction of the card, and the fraction also affects garbage
        # collection.
        high = int(min(high / max(settings.memory_fraction, 1e-9), ROOMY // STEP))
        while not _fits(replay, settings, high):
            if high >= ROOMY // STEP:
                part = f"per_process_memory_fraction:{settings.memory_fraction:g}"
                raise UsageError(f"with {part} for CUDA itself, no card is large enough")
            high = min(2 * high, ROOMY // STEP)
    return Smallest(settings, _least(replay, settings, high) * STEP)


def smallest_of_all(replay: Replay, start: Smallest) -> Smallest:
    """Find the smallest card over all `candidates`, which are variations of `start`'s settings. In
    a tie, `start` wins.

    Each candidate first has to fit on a card that is smaller than the best one so far. Most don't,
    and their simulations end at the first failed request. Only the most promising two of the others
    are bisected, at the same time, which gives the next card to try.
    """
    prepare(replay)
    everything = candidates(start.settings)
    best, left = start.program_memory_bytes // STEP, list(everything)
    while better := _fitting(replay, left, best - 1):
        first = sorted(better, key=lambda one: one.outcome.reserved_peak_bytes)[:BESIDE]
        best = min(on_threads(lambda one: _least(replay, one.settings, _enough(one)), first))
        left = [one.settings for one in better if one not in first]
    if best == start.program_memory_bytes // STEP:
        return start
    found = _fitting(replay, everything, best)
    if start.settings in [one.settings for one in found]:
        return Smallest(start.settings, best * STEP)
    least = min(found, key=lambda one: cost(one, start.settings))
    return Smallest(least.settings, best * STEP)


def _least(replay: Replay, settings: AllocatorSettings, high: int) -> int:
    """Return by bisection the smallest card on which the program fits; it fits on `high`."""
    low = min(replay.measure("requested").peak.bytes // STEP, high)
    while low < high:
        middle = (low + high) // 2
        found = _simulated(replay, settings, middle)
        if found is not None and found.fits:
            high = _enough(found)
        else:
            low = middle + 1
    return high


def _enough(found: Simulated) -> int:
    """Return the size of a card on which a simulation that fits takes the same course: its peak of
    reserved memory. If the settings depend on the card's size, return its own.
    """
    given, settings = found.program_memory_bytes or 0, found.settings
    if settings.memory_fraction is not None or settings.collect_threshold:
        return given // STEP
    return min(given // STEP, -(-found.outcome.reserved_peak_bytes // STEP))


def _roomy(replay: Replay, settings: AllocatorSettings) -> int:
    """Return a card size (in units of STEP) that is large enough: the reserved peak on a huge card,
    without the memory fraction.
    """
    whole = replace(settings, memory_fraction=None)
    found = replay.simulate(whole, program_memory=ROOMY)
    if found.failed_events:
        raise UsageError("the program needs more memory than any card has")
    return -(-found.outcome.reserved_peak_bytes // STEP)


def _fitting(replay: Replay, some: Iterable[AllocatorSettings], steps: int) -> list[Simulated]:
    """Return the simulations with those settings with which the program fits."""
    found = on_threads(lambda one: _simulated(replay, one, steps), some)
    return [one for one in found if one is not None and one.fits]


def _simulated(replay: Replay, settings: AllocatorSettings, steps: int) -> Simulated | None:
    """Simulate a card of this size; None without a card."""
    return replay.simulate(settings, program_memory=steps * STEP) if steps > 0 else None


def _fits(replay: Replay, settings: AllocatorSettings, steps: int) -> bool:
    found = _simulated(replay, settings, steps)
    return found is not None and found.fits
