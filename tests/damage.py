"""Remove events from snapshots, and check whether memreplay notices.

For a program on the allocator model, the truth comes from the model; for a complete real snapshot,
from its replay. Each kind of damage removes events from the trace and leaves the segments
unchanged. Results for the rest must equal the truth after each remaining event, or be marked as
estimated or not trustworthy.

    python -m tests.damage --programs 600            random programs, each kind of damage
    python -m tests.damage --programs 20 FILE...     real snapshots, each damaged 20 times
"""

from __future__ import annotations

import argparse
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import memreplay as mr
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.snapshot.model import MEASURES, MeasureName
from tests import build
from tests.allocator_strategies import SETTINGS, Recording, record

Trace = list[dict[str, Any]]
# Indices of the events that remain in a trace.
Kept = list[int]
Series = dict[str, list[int]]  # by measure: at the start, then after each event

SEGMENTS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")


class Whole(NamedTuple):
    """One device in a complete recording, and its true measures."""

    name: str
    snapshot: dict[str, Any]
    device: int
    truth: Series


class Judged(NamedTuple):
    """memreplay's verdict on a damaged recording."""

    wrong: tuple[MeasureName, ...]  # measures that memreplay wrongly calls exact
    trusted: bool  # whether the device is trusted
    reasons: tuple[str, ...]


# ---- damage --------------------------------------------------------------------------------------


def lost(*actions: str) -> Callable[[Trace, random.Random], Kept | None]:
    """Remove one event with one of these actions."""

    def damage(trace: Trace, rng: random.Random) -> Kept | None:
        found = [at for at, event in enumerate(trace) if event["action"] in actions]
        if not found:
            return None
        gone = rng.choice(found)
        return [at for at in range(len(trace)) if at != gone]

    return damage


def skipped(*actions: str) -> Callable[[Trace, random.Random], Kept | None]:
    """Remove all events with these actions, as skip_actions does."""

    def damage(trace: Trace, rng: random.Random) -> Kept | None:
        kept = [at for at, event in enumerate(trace) if event["action"] not in actions]
        return kept if len(kept) < len(trace) else None

    return damage


def paused(trace: Trace, rng: random.Random) -> Kept | None:
    """Remove some events in the middle."""
    if len(trace) < 3:
        return None
    first = rng.randrange(1, len(trace) - 1)
    last = rng.randrange(first + 1, min(len(trace), first + 1 + max(2, len(trace) // 3)))
    return [*range(first), *range(last, len(trace))]


def stopped(trace: Trace, rng: random.Random) -> Kept | None:
    """End the recording before the dump."""
    return list(range(rng.randrange(1, len(trace)))) if len(trace) > 1 else None


def restarted(trace: Trace, rng: random.Random) -> Kept | None:
    """Restart the recording, which drops the earlier events: a late recording."""
    return list(range(rng.randrange(1, len(trace)), len(trace))) if len(trace) > 1 else None


def untouched(trace: Trace, rng: random.Random) -> Kept | None:
    """Remove nothing."""
    return list(range(len(trace)))


DAMAGE: dict[str, Callable[[Trace, random.Random], Kept | None]] = {
    "alloc lost": lost("alloc"),
    "free_requested lost": lost("free_requested"),
    "free_completed lost": lost("free_completed"),
    "segment_alloc lost": lost("segment_alloc", "segment_map"),
    "segment_free lost": lost("segment_free", "segment_unmap"),
    "pause": paused,
    "stopped": stopped,
    "segment_alloc skipped": skipped("segment_alloc", "segment_map"),
    "segment_free skipped": skipped("segment_free", "segment_unmap"),
    "segments skipped": skipped(*SEGMENTS),
    "free_requested skipped": skipped("free_requested"),
}
# Kinds of damage after which a recording is still complete. It must be trusted, except after a
# restart, because the ring buffer may have been full.
NO_DAMAGE: dict[str, Callable[[Trace, random.Random], Kept | None]] = {
    "whole": untouched,
    "restarted": restarted,
}


def judge(whole: Whole, kept: Kept) -> Judged:
    """Return memreplay's results for a recording with only these events."""
    traces = list(whole.snapshot["device_traces"])
    trace = traces[whole.device]
    traces[whole.device] = [trace[at] for at in kept]
    snap = mr.open(build.dump(whole.snapshot | {"device_traces": traces}))
    replay = snap.replay(whole.device)
    wrong: list[MeasureName] = []
    for name in MEASURES:
        usage = replay.measure(name)
        if not verdict(snap, usage).exact:
            continue
        truth = whole.truth[name]
        # The truth before the first remaining event, then after each.
        expected = [truth[kept[0]] if kept else truth[-1], *(truth[at + 1] for at in kept)]
        if [usage.start_bytes, *usage.series.tolist()] != expected:
            wrong.append(name)
    found = device_verdict(snap, replay)
    return Judged(tuple(wrong), found.trusted, found.reasons)


# ---- recordings ----------------------------------------------------------------------------------


def program(seed: int, max_steps: int = 150, *, late: bool = False) -> Recording:
    """Return a random program on the allocator model, recorded from its start or late."""
    rng = random.Random(seed)
    return record(
        seed,
        settings=rng.choice(sorted(SETTINGS)),
        steps=rng.randrange(20, max_steps),
        late=rng.randrange(max_steps) if late else 0,
        private_pools=rng.random() < 0.5,
        event_pools=rng.random() < 0.5,
    )


def simulated(recording: Recording) -> Whole:
    truth = recording.truths[0]
    series: Series = {name: [truth.start_of(name), *truth.series(name)] for name in MEASURES}
    return Whole(repr(recording), recording.snapshot, 0, series)


def real(path: Path) -> Iterator[Whole]:
    """Return the devices in a complete real snapshot, whose replay is the truth."""
    snapshot = pickle.loads(path.read_bytes())
    snap = mr.open(path)
    for device in snap.devices:
        replay = snap.replay(device)
        if not device_verdict(snap, replay).trusted:
            continue
        series: Series = {}
        for name in MEASURES:
            usage = replay.measure(name)
            series[name] = [usage.start_bytes, *usage.series.tolist()]
        yield Whole(path.name, snapshot, device, series)


# ---- counting results ----------------------------------------------------------------------------


class Count(NamedTuple):
    """Results for recordings with one kind of damage."""

    made: int
    wrong_trusted: int  # a measure is wrongly called exact, and the device is trusted
    wrong_exact: int  # a measure is wrongly called exact, trusted or not
    doubted: int  # not trusted, right or wrong
    by_measure: Counter[str]  # the same as wrong_exact, by measure


def count(
    wholes: Iterator[Whole],
    damage: Callable[[Trace, random.Random], Kept | None],
    *,
    seed: int = 0,
    show: Callable[[Whole, Kept, Judged], None] | None = None,
) -> Count:
    made = trusted = exact = doubted = 0
    measures: Counter[str] = Counter()
    for at, whole in enumerate(wholes):
        kept = damage(whole.snapshot["device_traces"][whole.device], random.Random(seed + at))
        if kept is None:
            continue
        found = judge(whole, kept)
        made += 1
        exact += bool(found.wrong)
        trusted += bool(found.wrong) and found.trusted
        doubted += not found.trusted
        measures.update(found.wrong)
        if found.wrong and show is not None:
            show(whole, kept, found)
    return Count(made, trusted, exact, doubted, measures)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="real snapshots that are whole")
    parser.add_argument("--programs", type=int, default=600)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--late", action="store_true", help="recordings that begin late")
    parser.add_argument("--only", help="one kind of damage")
    parser.add_argument("--show", action="store_true", help="each one that is wrong")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.programs)
    wholes = [one for path in asked.files for one in real(path) for _ in seeds] or [
        simulated(program(seed, late=asked.late)) for seed in seeds
    ]

    def show(whole: Whole, kept: Kept, found: Judged) -> None:
        events = len(whole.snapshot["device_traces"][whole.device])
        gone = sorted(set(range(events)) - set(kept))
        print("   ", whole.name, f"without {gone[0]} to {gone[-1]}:" if gone else "whole:", found)

    print(f"{'damage':24}{'made':>6}{'wrong, trusted':>16}{'wrong, exact':>16}{'doubted':>9}")
    for name, damage in (NO_DAMAGE | DAMAGE).items():
        if asked.only in (None, name):
            c = count(iter(wholes), damage, seed=asked.first, show=show if asked.show else None)
            print(
                f"{name:24}{c.made:6}{c.wrong_trusted:16}{c.wrong_exact:16}{c.doubted:9}"
                f"  {dict(c.by_measure)}"
            )


if __name__ == "__main__":
    main()
