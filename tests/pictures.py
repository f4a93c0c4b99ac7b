"""The allocator model's internal state between the steps of a random program.

A snapshot shows only the last state. A `Picture` is the state after some event, along with what
`empty_cache()` would free at that point. To find that out, `empty_cache()` is called on a copy.
"""

from __future__ import annotations

import copy
import pickle
import random
from dataclasses import dataclass
from typing import NamedTuple, cast

from tests.allocator import Device, Machine
from tests.allocator_blocks import DEFAULT_POOL, LARGE_SEGMENT, Block, PoolId, Settings
from tests.allocator_strategies import SETTINGS, Program
from tests.build import Snapshot

STATES = {"inactive": "free", "active_allocated": "in_use", "active_pending_free": "pending"}


class Tile(NamedTuple):
    """A block; `requested` is 0 if the block is free."""

    addr: int
    size: int
    requested: int
    state: str


@dataclass
class Range:
    """A segment, or a mapped range in an expandable segment."""

    addr: int
    size: int
    pool: PoolId
    stream: int
    small: bool
    expandable: bool
    tiles: list[Tile]

    def sum(self, state: str) -> int:
        return sum(tile.size for tile in self.tiles if tile.state == state)


@dataclass
class Picture:
    """The state after event `event` (-1: none yet)."""

    event: int
    ranges: list[Range]
    returned: int  # bytes that empty_cache() frees in the default pool
    returned_private: int  # the same in private pools, if all were released


@dataclass
class Pictures:
    """One device's recording, and the pictures taken during the recording."""

    snapshot: Snapshot
    pictures: list[Picture]


def ranges(device: Device) -> list[Range]:
    found = []
    for area in device.all_areas():
        for blocks in area.mapped_ranges():
            first, size = blocks[0].addr, sum(block.size for block in blocks)
            tiles = [_tile(block) for block in blocks]
            kind = area.pool, area.stream, area.small, area.expandable
            found.append(Range(first, size, *kind, tiles))
    return sorted(found, key=lambda one: one.addr)


def _tile(block: Block) -> Tile:
    requested = block.requested if block.in_use else 0
    return Tile(block.addr, block.size, requested, STATES[block.state])


def picture(device: Device) -> Picture:
    event = len(device.history) - device.recording_from - 1
    default = _returned(device, set())
    pools = {area.pool for area in device.all_areas()} - {DEFAULT_POOL}
    return Picture(event, ranges(device), default, _returned(device, pools) - default)


def _returned(device: Device, released: set[PoolId]) -> int:
    """Return the bytes that empty_cache() frees if only the given private pools are released."""
    again = copy.copy(device)
    again.history, again.frame_dicts = [], {}
    # Does what deepcopy() does, in a tenth of the time.
    again = cast(Device, pickle.loads(pickle.dumps(again, pickle.HIGHEST_PROTOCOL)))
    again.released_pools, again.capturing = released, None
    again.empty_cache()
    return device.reserved - again.reserved


def record_pictures(
    seed: int,
    settings: str | Settings = "default",
    steps: int = 100,
    late: int = 0,
    event_pools: bool = True,
    taken: int = 6,
) -> Pictures:
    """Run a random program on one device, taking some pictures on the way."""
    chosen = SETTINGS[settings] if isinstance(settings, str) else settings
    machine = Machine(chosen)
    (device,) = machine.devices
    rng = random.Random(seed)
    program = Program(device, rng, private_pools=True)
    program.run(late)
    machine.begin_recording()
    moments = set(random.Random(~seed).sample(range(steps), min(taken, steps)))
    found = [picture(device)]
    for step in range(steps):
        program.run(1)
        if step in moments:
            found.append(picture(device))
    found.append(picture(device))
    snapshot, _ = machine.dump(event_pools=event_pools)
    return Pictures(snapshot, found)


# --- what keeps free memory from being returned ---------------------------------------------------


def units(one: Range) -> list[tuple[int, int]]:
    """Return the units that are returned to the driver as a whole: a segment, or a mapped range's
    handles.
    """
    if not one.expandable:
        return [(one.addr, one.addr + one.size)]
    handle = 2 << 20 if one.small else LARGE_SEGMENT
    return [(at, at + handle) for at in range(one.addr, one.addr + one.size, handle)]


def blocked(one: Range) -> tuple[int, dict[int, int]]:
    """Return the free bytes in units that can't be returned, and each block's share of them by
    address.
    """
    total, parts = 0, dict[int, int]()
    for start, end in units(one):
        inside = [t for t in one.tiles if t.addr < end and t.addr + t.size > start]
        free = sum(
            min(t.addr + t.size, end) - max(t.addr, start) for t in inside if t.state == "free"
        )
        holders = [t.addr for t in inside if t.state == "in_use"]
        if not holders:
            continue
        total += free
        for number, addr in enumerate(holders):
            odd = number < free % len(holders)
            parts[addr] = parts.get(addr, 0) + free // len(holders) + odd
    return total, parts
