"""Random programs on the allocator model. They resemble training scripts and are generated from a
seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.allocator import Checkpoint, Device, Machine
from tests.allocator_blocks import INTERVALS, KIB, MIB, Block, PoolId, Settings, Stack
from tests.allocator_truth import Truth
from tests.build import Snapshot

SETTINGS: dict[str, Settings] = {
    "default": Settings(),
    "crowded": Settings(capacity=150 * MIB),
    "roundup": Settings(roundup_power2_divisions=(4,) * INTERVALS),
    "roundup by interval": Settings(
        roundup_power2_divisions=(2, 0, 8, 1, 16) + (4,) * (INTERVALS - 5)
    ),
    "max split": Settings(max_split_size=20 * MIB),
    "max split, crowded": Settings(max_split_size=24 * MIB, capacity=200 * MIB),
    "expandable": Settings(expandable_segments=True),
    "expandable, crowded": Settings(expandable_segments=True, capacity=180 * MIB),
    "expandable, roundup": Settings(
        expandable_segments=True, roundup_power2_divisions=(8,) * INTERVALS
    ),
    "npu": Settings(npu=True),
    "npu, max split, crowded": Settings(npu=True, max_split_size=24 * MIB, capacity=200 * MIB),
    "npu, expandable": Settings(npu=True, expandable_segments=True),
    "npu, expandable, crowded": Settings(npu=True, expandable_segments=True, capacity=180 * MIB),
}

STREAMS = (0, 0, 0, 0, 0x5555_0000_1000, 7)
POOLS: tuple[PoolId, ...] = ((0, 1), (1, 0), (2, 0))
STACKS: tuple[Stack, ...] = (
    (),
    (("forward", "model.py", 10), ("train", "train.py", 5)),
    (("backward", "model.py", 20), ("train", "train.py", 6)),
    (("step", "optimizer.py", 30), ("train", "train.py", 7)),
)

# The operations in a step, and their weights.
WEIGHTS = {
    "malloc": 40,
    "free": 26,
    "free several": 2,
    "record stream": 6,
    "finish stream": 3,
    "empty cache": 2,
    "switch pool": 4,
    "checkpoint": 3,
    "release pool": 1,
    "snapshot": 1,
}


@dataclass(repr=False)
class Recording:
    """A snapshot, with the truth for each of its devices."""

    made_by: str  # the call that reproduces it
    settings: Settings
    snapshot: Snapshot
    truths: list[Truth]

    def __repr__(self) -> str:
        return self.made_by

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # used by Hypothesis
        printer.text(self.made_by)


class Program:
    """A random program on one device."""

    def __init__(self, device: Device, rng: random.Random, private_pools: bool) -> None:
        self.device = device
        self.rng = rng
        self.pools = POOLS if private_pools else ()
        self.live: list[Block] = []
        self.sizes: list[int] = []  # earlier requests, because real programs repeat theirs
        self.checkpoints: dict[PoolId, Checkpoint] = {}

    def run(self, steps: int) -> None:
        actions = [action for action, weight in WEIGHTS.items() for _ in range(weight)]
        for _ in range(steps):
            self.step(self.rng.choice(actions))

    def step(self, action: str) -> None:
        device, rng = self.device, self.rng
        stack = self.stack()
        if action == "malloc":
            block = device.malloc(self.size(), rng.choice(STREAMS), stack)
            if block is not None:
                self.live.append(block)
        elif action == "free" and self.live:
            self.free_one()
        elif action == "free several":
            for _ in range(rng.randrange(len(self.live) + 1)):
                self.free_one()
        elif action == "record stream" and self.live:
            device.record_stream(rng.choice(self.live), rng.choice(STREAMS))
        elif action == "finish stream":
            device.finish_stream(rng.choice(STREAMS))
        elif action == "empty cache" and device.capturing is None:
            device.empty_cache(stack)
        elif action == "switch pool":
            self.switch_pool()
        elif action == "checkpoint" and self.pools and device.capturing is None:
            self.checkpoint(rng.choice(self.pools))
        elif action == "release pool" and self.pools:
            self.release(rng.choice(self.pools))
        elif action == "snapshot":
            device.record_snapshot()

    def size(self) -> int:
        """Return a request's size: often an earlier request's size, or slightly less, which leaves
        slack.
        """
        rng = self.rng
        if self.sizes and rng.random() < 0.4:
            size = rng.choice(self.sizes)
            if rng.random() < 0.4:
                size = max(1, size - rng.choice((1, 512, 100 * KIB, 700 * KIB, MIB, MIB + 512)))
            return size
        kind = rng.randrange(9)
        if kind < 2:
            size = rng.randint(1, 4 * KIB)
        elif kind < 4:
            size = rng.randint(4 * KIB, MIB)
        elif kind == 4:
            size = rng.choice((511, 512, 513, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB))
        elif kind < 7:
            size = rng.randint(MIB + 1, 10 * MIB)
        else:
            size = rng.randint(10 * MIB, 45 * MIB)
        self.sizes.append(size)
        return size

    def free_one(self) -> None:
        rng = self.rng
        at = len(self.live) - 1 if rng.random() < 0.3 else rng.randrange(len(self.live))
        block = self.live.pop(at)
        self.device.free(block, self.free_stack())

    def stack(self) -> Stack:
        """Return the next call's stack."""
        return self.rng.choice(STACKS)

    def free_stack(self) -> Stack | None:
        """Return a free's stack, or None if the free's events have the alloc's stack."""
        return self.rng.choice((None, self.rng.choice(STACKS)))

    def switch_pool(self) -> None:
        device = self.device
        if device.capturing is not None:
            device.end_pool()
            return
        usable = [pool for pool in self.pools if pool not in device.released_pools]
        if usable:
            device.begin_pool(self.rng.choice(usable))

    def checkpoint(self, pool: PoolId) -> None:
        """Take a checkpoint, or restore the last one."""
        device = self.device
        if pool in device.released_pools or not device.can_checkpoint(pool):
            return
        if pool not in self.checkpoints:
            self.checkpoints[pool] = device.checkpoint(pool)
            return
        checkpoint = self.checkpoints.pop(pool)
        if not device.has_areas_of(pool, checkpoint):
            return
        created = device.set_checkpoint(pool, checkpoint)
        self.live = [block for block in self.live if block.area.pool != pool] + created

    def release(self, pool: PoolId) -> None:
        if self.device.capturing != pool:
            self.device.release_pool(pool)
            self.checkpoints.pop(pool, None)


def record(
    seed: int,
    *,
    settings: Settings | str = "default",
    steps: int = 100,
    devices: int = 1,
    late: int = 0,
    max_entries: int | None = None,
    private_pools: bool = True,
    event_pools: bool = True,
) -> Recording:
    """Run a random program; the same arguments always give the same recording.

    `settings` is one of SETTINGS, or its name. `late` steps run before recording begins, `steps`
    while it is on. `max_entries` is the ring buffer's length; older events are lost.
    """
    made_by = (
        f"record({seed}, settings={settings!r}, steps={steps}, devices={devices}, late={late}, "
        f"max_entries={max_entries}, private_pools={private_pools}, event_pools={event_pools})"
    )
    chosen = SETTINGS[settings] if isinstance(settings, str) else settings
    machine = Machine(chosen, devices)
    rng = random.Random(seed)
    programs = [Program(device, rng, private_pools) for device in machine.devices]
    for program in programs:
        program.run(late)
    machine.begin_recording()
    for program in programs:
        program.run(steps)
    snapshot, truths = machine.dump(max_entries, event_pools)
    return Recording(made_by, chosen, snapshot, truths)


def recordings(
    max_steps: int = 150, max_devices: int = 2, settings: str | None = None
) -> st.SearchStrategy[Recording]:
    """Draw a recording of any kind: started late or not, cut off or not, with or without pools and
    their ids.
    """
    return st.builds(
        record,
        seed=st.integers(0, 2**32 - 1),
        settings=st.sampled_from([settings] if settings else list(SETTINGS)),
        steps=st.integers(0, max_steps),
        devices=st.integers(1, max_devices),
        late=st.one_of(st.just(0), st.integers(0, max_steps)),
        max_entries=st.one_of(st.none(), st.integers(1, max_steps)),
        private_pools=st.booleans(),
        event_pools=st.booleans(),
    )
