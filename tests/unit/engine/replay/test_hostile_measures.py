"""Even for impossible traces, every measure is computed quickly and adds up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.query import _groups
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.build import Snapshot, SnapshotBuilder
from tests.unit.engine.replay.measured import MIB, A

TOP, LARGEST = 2**64, 2**62 - 1
CHECKPOINT = [("apply_checkpoint_execution_state_in_allocator", "x.py", 1)]
EDGES = (
    *(0, 1, 511, 512, A, A + 512, A + MIB, 2**62, 2**63 - 1, 2**63),
    *(TOP - 2**62, TOP - 1024, TOP - 512, TOP - 1),
)
SIZES = (0, 1, 511, 512, 513, MIB, MIB + 1, 2 * MIB, 20 * MIB, 2**40, 2**61, LARGEST)
ACTIONS = (
    *("alloc", "alloc", "free_completed", "free_requested"),
    *("segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot"),
)
SETTINGS: tuple[dict[str, Any], ...] = (
    *({}, {"max_split_size": 0}, {"max_split_size": 2**62}, {"expandable_segments": True}),
    *({"roundup_power2_divisions": n} for n in (2, 3, 2**40, 2**62)),
)


def use_everything(snapshot: Snapshot) -> None:
    """Compute everything; all sums must add up, except for overflowing ones."""
    ranges: tuple[dict[str, Any], ...] = ({}, {"start": 3, "stop": 9})
    for bounds in ranges:
        snap = mr.open(build.dump(snapshot), **bounds)
        ranks = bytes(snap.native.n_strings)
        for device in snap.devices:
            try:
                replay = snap.replay(device)
            except mr.SnapshotError as error:
                assert "does not fit" in str(error)  # noqa: PT017 (others pass)
                continue
            last = replay.start + replay.events
            for measure in MEASURES:
                usage = replay.measure(measure)
                assert usage.end_bytes == [usage.start_bytes, *usage.series.tolist()][-1]
                assert usage.peaks(3)[0] == usage.peak
                assert usage.minimum.bytes <= usage.peak.bytes
                for by in ("pool", "stream"):
                    parts = usage.parts(by, last)
                    assert (sum(part.bytes for part in parts) - usage.end_bytes) % TOP == 0
                if measure != "reserved":
                    assert usage.live_at(event=last).bytes == usage.end_bytes
                    assert len(usage.lifetimes) >= len(usage.live_at(event=last))
                    live = usage.native.live(replay.events - 1)
                    for kind in ("stack", "innermost", "line", "file", "function"):
                        keys = _groups.stack_keys(replay.native, kind, ranks, ranks)
                        assert keys.sums(live, usage.native, 0)[2] == usage.end_bytes
            assert replay.blocks.synthetic <= replay.events


def at_the_edges(seed: int) -> Snapshot:
    rng = random.Random(seed)
    b = SnapshotBuilder(2).settings(**rng.choice(SETTINGS))
    for _ in range(rng.choice((10, 60))):
        action, size = rng.choice(ACTIONS), rng.choice(SIZES)
        if not action.startswith("segment"):
            size = min(size, 2 ** rng.choice((9, 40, 60)))
        stack = rng.choice(((), CHECKPOINT))
        b.event(action, rng.choice(EDGES), size, rng.randrange(2), frames=stack)
    for _ in range(rng.randrange(5)):
        states = ("active_allocated", "active_pending_free", "inactive", "unheard of")
        held = [
            b.block(
                rng.choice(EDGES), rng.choice(SIZES), rng.choice((0, 1, MIB)), rng.choice(states)
            )
            for _ in range(rng.randrange(4))
        ]
        totals: dict[str, Any] = dict.fromkeys(
            ("allocated_size", "active_size", "requested_size"), 0
        )
        expandable = rng.random() < 0.5
        where = rng.choice(EDGES), rng.choice(SIZES), rng.randrange(2)
        b.segment(*where, blocks=held, is_expandable=expandable, **totals)
    return b.build()


@pytest.mark.slow
def test_extreme_addresses_and_sizes_add_up() -> None:
    for seed in range(300):
        use_everything(at_the_edges(seed))


N = 20_000


def unmapped(order: list[int]) -> SnapshotBuilder:
    """Map one range, then repeatedly unmap a piece from the middle of what remains."""
    b = SnapshotBuilder(times=False).segment_map(A, 4 * N * MIB)
    for i in order:
        b.segment_unmap(A + (4 * i + 1) * MIB, 2 * MIB)
    return b


def many(add: Callable[[SnapshotBuilder, int], object]) -> SnapshotBuilder:
    b = SnapshotBuilder(times=False)
    for i in range(N):
        add(b, i)
    return b


MANY: dict[str, Callable[[], SnapshotBuilder]] = {
    "unmapped in order": lambda: unmapped(list(range(N))),
    "unmapped backwards": lambda: unmapped(list(range(N))[::-1]),
    "unmapped at random": lambda: unmapped(random.Random(1).sample(range(N), N)),
    "overlapping": lambda: many(lambda b, i: b.segment_alloc(A + i * 512, 2**40)),
    "overlapping, freed": lambda: many(lambda b, i: b.segment_free(A + i * 512, 2**40)),
    "nested": lambda: many(lambda b, i: b.segment_free(A + i * 512, (N - i) * 1024)),
    "growing": lambda: many(lambda b, i: b.segment_alloc(A - i * 512, (i + 1) * 1024)),
    "misplaced": lambda: many(lambda b, i: b.alloc(A + i * 512, 5)),
    "over each other": lambda: many(lambda b, i: b.alloc(A, 5 + i % 7)),
    "carried": lambda: many(lambda b, i: b.free_completed(A + i * 512, 5)).segment(A, N * 512),
    "pools and streams": lambda: many(
        lambda b, i: b.alloc(A + i * 512, 5, stream=i, pool_id=(i, i))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_many_events_take_linear_time(name: str) -> None:
    snap = mr.open(build.dump(MANY[name]().build()))
    begun = time.process_time()
    replay = snap.replay()
    for measure in MEASURES:
        usage = replay.measure(measure)
        assert usage.end_bytes == usage.series[-1]
        for by in ("pool", "stream"):
            assert sum(part.bytes for part in usage.parts(by, N - 1)) == usage.series[N - 1]
    assert time.process_time() - begun < 5  # 0.01 s to 0.5 s


def test_long_name_similar_to_a_checkpoint_takes_linear_time() -> None:
    name = CHECKPOINT[0][0][:-1] * 20_000
    snap = mr.open(build.dump(SnapshotBuilder().alloc(A, 5, frames=[(name, "a.py", 1)]).build()))
    begun = time.process_time()
    assert snap.replay().blocks.synthetic == 0
    assert time.process_time() - begun < 1
