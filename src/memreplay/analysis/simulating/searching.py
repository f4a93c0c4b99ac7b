"""Try promising settings in parallel, one thread per processor."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from memreplay.analysis.simulating.records import Candidate
from memreplay.analysis.trust.trust import exactness_of
from memreplay.errors import UsageError
from memreplay.io.parallel import executor
from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from memreplay.snapshot.recorded_allocator import Edit
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated

    S = TypeVar("S")
    T = TypeVar("T")

SPLITS = (32, 64, 128, 256, 512)  # MiB, for max_split_size_mb
DIVISIONS = (2, 4, 8, 16)  # for roundup_power2_divisions
SEGMENTS = (40, 80)  # MiB, for large_segment_size_mb; 20 is the default


def candidates(start: AllocatorSettings) -> tuple[AllocatorSettings, ...]:
    """Return `start`'s settings, then about 30 variations of them."""
    both = ("expandable_segments:False", "expandable_segments:True")
    texts = [*both]
    for expandable in both:
        texts += [f"{expandable},roundup_power2_divisions:{n}" for n in DIVISIONS]
        texts += [f"{expandable},large_segment_size_mb:{n}" for n in SEGMENTS]
    texts += [f"{both[0]},max_split_size_mb:{n}" for n in SPLITS]
    texts += [
        f"{both[0]},max_split_size_mb:{split},roundup_power2_divisions:{n}"
        for split in SPLITS[1:4]
        for n in DIVISIONS[1:3]
    ]
    texts += [f"{both[1]},max_split_size_mb:{n}" for n in SPLITS[1:4]]
    texts.append(f"{both[0]},max_split_size_mb:128,max_non_split_rounding_mb:128")
    found = [start]
    for text in texts:
        with suppress(UsageError):  # PyTorch rejects the combination
            found.append(changed_settings(start, text))
    return tuple(dict.fromkeys(found))


def search(
    replay: Replay,
    start: AllocatorSettings,
    program_memory: int | None = None,
    edit: Edit | None = None,
    others: tuple[AllocatorSettings, ...] = (),
) -> list[Simulated]:
    """Simulate the `candidates` and `others`. Return the results, best first."""
    prepare(replay)
    if edit is not None:
        edit.prepare()
    found = on_threads(
        lambda settings: replay.simulate(settings, program_memory=program_memory, edit=edit),
        dict.fromkeys((*candidates(start), *others)),
    )
    return sorted(found, key=lambda one: cost(one, start))


def cost(found: Simulated, start: AllocatorSettings) -> tuple[bool, int, int, int, int, int]:
    """Return a sort key for simulations.

    Prefers simulations that don't run out of memory, or that run out later; then fewer failed
    requests, less reserved memory, fewer changes to `start`, and fewer driver calls.
    """
    outcome, stopped = found.outcome, found.stopped_event
    return (
        stopped is not None,
        0 if stopped is None else -stopped,
        outcome.oom_count,
        outcome.reserved_peak_bytes,
        sum(new != old for new, old in zip(astuple(found.settings), astuple(start), strict=True)),
        outcome.driver_allocs + outcome.driver_frees,
    )


def as_candidate(found: Simulated, *, exact: bool) -> Candidate:
    """Convert a simulation to a result. `exact`: whether the recording is exact."""
    return Candidate(
        settings=spelled(found.settings),
        is_recorded=found.settings == found.replay.settings,
        simulated=found.outcome,
        stopped_event=found.stopped_event,
        exactness=exactness_of(exact, found.exact),
    )


def prepare(replay: Replay) -> None:
    """Compute what all simulations share, so that threads only read it."""
    _ = replay.recorded.outcome, replay.recorded.reproduced


def on_threads(work: Callable[[S], T], some: Iterable[S]) -> list[T]:
    """Apply `work` to each of them on threads, and return the results in order. The engine releases
    the GIL.
    """
    with executor(os.cpu_count() or 1) as pool:
        return list(pool.map(work, some))
