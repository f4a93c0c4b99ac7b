"""Find the smallest card that a program fits on, and the settings for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.simulating.searching import candidates, cost, on_threads, prepare
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.replay import Replay

STEP = 2 << 20  # bytes: the driver's allocation granularity
ROOMY = 1 << 60  # size of a card with more memory than any program needs, in bytes


class Smallest(NamedTuple):
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
    low = 0
    while low < high:
        middle = (low + high) // 2
        if _fits(replay, settings, middle):
            high = middle
        else:
            low = middle + 1
    return Smallest(settings, high * STEP)


def smallest_of_all(replay: Replay, start: Smallest) -> Smallest:
    """Find the smallest card over all `candidates`, which are variations of `start`'s settings. In
    a tie, `start` wins.

    Bisects for all candidates at once. Once some candidates fit on a card, the others are dropped.
    """
    prepare(replay)
    left = list(candidates(start.settings))
    low, high = 0, start.program_memory_bytes // STEP
    if start.settings.memory_fraction is None:
        high = min(high, *on_threads(lambda one: _roomy(replay, one), left))
    left = _fitting(replay, left, high)
    while low < high:
        middle = (low + high) // 2
        if some := _fitting(replay, left, middle):
            left, high = some, middle
        else:
            low = middle + 1
    if start.settings in left or not left:
        return start
    total = high * STEP
    costs = on_threads(
        lambda one: cost(replay.simulate(one, program_memory=total), start.settings), left
    )
    return Smallest(left[costs.index(min(costs))], total)


def _roomy(replay: Replay, settings: AllocatorSettings) -> int:
    """Return a card size (in units of STEP) that is large enough: the reserved peak on a huge card,
    without the memory fraction.
    """
    whole = replace(settings, memory_fraction=None)
    found = replay.simulate(whole, program_memory=ROOMY)
    if found.failed_events:
        raise UsageError("the program needs more memory than any card has")
    return -(-found.outcome.reserved_peak_bytes // STEP)


def _fitting(replay: Replay, some: list[AllocatorSettings], steps: int) -> list[AllocatorSettings]:
    """Return the settings with which the program fits."""
    found = on_threads(lambda one: _fits(replay, one, steps), some)
    return [one for one, fits in zip(some, found, strict=True) if fits]


def _fits(replay: Replay, settings: AllocatorSettings, steps: int) -> bool:
    return steps > 0 and replay.simulate(settings, program_memory=steps * STEP).fits
