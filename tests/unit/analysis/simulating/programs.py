"""Small programs that need more or less memory depending on the allocator settings."""

from __future__ import annotations

import random

import memreplay as mr
from memreplay.analysis.simulating.fitting import Smallest, smallest, smallest_of_all
from memreplay.snapshot.alloc_conf import AllocatorSettings
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import GIB, MIB, Block, Settings, Stack
from tests.build import Snapshot

ASK: Stack = (("attention", "/srv/model.py", 52), ("main", "/srv/main.py", 3))
KEEP: Stack = (("append", "/srv/cache.py", 27), ("main", "/srv/main.py", 5))


def scattered(capacity: int = 80 * GIB) -> Snapshot:
    """Free half of 40 blocks of 5 MiB, in runs of 20 MiB that each span two segments. Then request
    18 MiB five times. The requests fit only if one expandable segment holds everything.
    """
    machine = Machine(Settings(capacity=capacity))
    machine.begin_recording()
    device = machine.devices[0]
    blocks = [device.malloc(5 * MIB, 0, KEEP) for _ in range(40)]
    for at, block in enumerate(blocks):
        if block is not None and at % 8 in (2, 3, 4, 5):
            device.free(block, KEEP)
    for _ in range(5):
        device.malloc(18 * MIB, 0, ASK)
    return machine.dump()[0]


def mixed(seed: int, steps: int = 60, capacity: int = 80 * GIB) -> Snapshot:
    """Allocate random blocks of 1 to 24 MiB, and free some."""
    rng = random.Random(seed)
    machine = Machine(Settings(capacity=capacity))
    machine.begin_recording()
    device = machine.devices[0]
    live: list[Block] = []
    for step in range(steps):
        # Each call has its own line, so no two calls look the same.
        stack: Stack = (("step", "/srv/main.py", step + 1),)
        if live and rng.random() < 0.45:
            device.free(live.pop(rng.randrange(len(live))), stack)
        else:
            block = device.malloc(rng.randint(MIB, 24 * MIB), 0, stack)
            if block is not None:
                live.append(block)
    return machine.dump()[0]


def replayed(snapshot: Snapshot) -> mr.Replay:
    return mr.open(build.dump(snapshot)).replay(0)


def least_of(replay: mr.Replay, start: AllocatorSettings) -> Smallest:
    """Return the settings that need the least memory. In a tie, prefer those close to `start`."""
    return smallest_of_all(replay, smallest(replay, start))
