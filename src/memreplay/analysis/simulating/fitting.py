"""The smallest card that a program fits on, and the settings that it needs for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

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
    high = _roomy(replay, settings)
    if settings.memory_fraction is not None and high:
        # The program has a part of the card alone, and what is collected depends on that.
        high = int(min(high / max(settings.memory_fraction, 1e-9), ROOMY // STEP))
        while not _fits(replay, settings, high):
            if high >= ROOMY // STEP:
                part = f"per_process_memory_fraction:{settings.memory_fraction:g}"
                raise UsageError(f"with {part} no card is large enough")
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
    """With any of the `candidates` for the settings of `start`; of equal ones the first, which is
    `start`, or else the best. The steps are halved for all at once: what does not fit where others
    do is left out from there on."""
    prepare(replay)
    left = list(candidates(start.settings))
    low, high = 0, start.total_bytes // STEP
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
        lambda one: cost(replay.simulate(one, total_bytes=total), start.settings), left
    )
    return Smallest(left[costs.index(min(costs))], total)


def _roomy(replay: Replay, settings: AllocatorSettings) -> int:
    """What it takes where there is more than enough, in steps: that suffices. A memory fraction is
    left aside."""
    whole = replace(settings, memory_fraction=None)
    found = replay.simulate(whole, total_bytes=ROOMY)
    if found.failed_events:
        raise UsageError("it asks for more memory than any card has")
    return -(-found.outcome.reserved_peak_bytes // STEP)


def _fitting(replay: Replay, some: list[AllocatorSettings], steps: int) -> list[AllocatorSettings]:
    """Those with which it fits then."""
    found = on_threads(lambda one: _fits(replay, one, steps), some)
    return [one for one, fits in zip(some, found, strict=True) if fits]


def _fits(replay: Replay, settings: AllocatorSettings, steps: int) -> bool:
    return steps > 0 and replay.simulate(settings, total_bytes=steps * STEP).fits
