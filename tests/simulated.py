"""Programs on the allocator model, whose recordings contain everything that a simulation needs."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import memreplay as mr
import memreplay._core as _core
from memreplay.engine.simulate import _simulating
from tests import build
from tests.allocator import Device, Machine
from tests.allocator_blocks import LARGE_SEGMENT, ROUND_LARGE, Area, Block, PoolId, Settings, Stack
from tests.allocator_strategies import WEIGHTS, Program
from tests.build import Snapshot

BASE = 1 << 40  # where a simulation's addresses begin
STATES = {
    _simulating.FREE: "inactive",
    _simulating.USED: "active_allocated",
    _simulating.PENDING: "active_pending_free",
}

Call = tuple[str, int, int]  # driver calls: action, address, bytes
Segment = tuple[int, int, bool, list[tuple[int, str, int]]]


class Placed(Device):
    """A device whose driver uses the smallest gap of addresses, or the lowest if several are
    equally small. If addresses aren't reused, segments are ordered by age, which is the order in
    which newer versions of PyTorch search them.
    """

    high = 0
    reuses = True

    def new_area(self, size: int, key: tuple[PoolId, bool], stream: int, expandable: bool) -> Area:
        wanted = pages(size)
        taken = sorted((area.addr, area.addr + pages(area.size)) for area in self.all_areas())
        self.high = max([self.high, self.base, *(end for _, end in taken)])
        gaps, at = [], self.base
        for start, end in [*taken, (self.high, self.high)]:
            if self.reuses and start - at >= wanted:
                gaps.append((start - at, at))
            at = end
        addr = min(gaps)[1] if gaps else self.high
        self.high = max(self.high, addr + wanted)
        area = Area(addr, size, *key, stream, expandable)
        area.blocks.append(Block(area, addr, size))
        self.areas.setdefault(key, []).append(area)
        return area


def pages(size: int) -> int:
    return -(-size // ROUND_LARGE) * ROUND_LARGE


class Told(Program):
    """A random program in which each call has its own stack, as if each were on its own line."""

    calls = 0

    def stack(self) -> Stack:
        self.calls += 1
        return (("call", "program.py", self.calls),)

    def free_stack(self) -> Stack | None:
        return self.stack()


class Run(NamedTuple):
    """An allocator's results: all driver calls, and the final segments."""

    calls: list[Call]
    segments: list[Segment]
    peak: int
    ooms: int


def modelled(
    settings: Settings,
    seed: int,
    steps: int,
    without: tuple[str, ...] = (),
    before: int = 0,
    *,
    reuses: bool = True,
) -> tuple[Snapshot, Run]:
    """Run a random program on the model without recording its first `before` steps. The same seed
    and steps make the same requests.
    """
    machine = Machine(settings)
    device = machine.devices[0] = Placed(settings, BASE)
    device.reuses = reuses
    program = Told(device, random.Random(seed), private_pools=False)
    rng = random.Random(seed + 1)
    actions = [one for one, weight in WEIGHTS.items() for _ in range(weight) if one not in without]
    for at in range(before + steps):
        if before and at == before:
            machine.begin_recording()
            # Addresses above the highest one appear never to have been used.
            ends = [area.addr + pages(area.size) for area in device.all_areas()]
            device.high = max(ends, default=0)
        program.step(rng.choice(actions))
    return dumped(machine)


def dumped(machine: Machine) -> tuple[Snapshot, Run]:
    """Return the machine's recording, and its device's results."""
    snapshot, truth = machine.dump()
    trace = snapshot["device_traces"][0]
    calls = [
        (event["action"], event["addr"], event["size"])
        for event in trace
        if event["action"].startswith("segment_")
    ]
    peak = reserved = truth[0].start_of("reserved")
    for action, _, size in calls:
        reserved += size if action in ("segment_alloc", "segment_map") else -size
        peak = max(peak, reserved)
    segments = [
        (
            one["address"],
            one["stream"],
            one["segment_type"] == "small",
            [
                (b["size"], b["state"], b["requested_size"] if b["state"] != "inactive" else 0)
                for b in one["blocks"]
            ],
        )
        for one in snapshot["segments"]
    ]
    ooms = sum(event["action"] == "oom" for event in trace)
    return snapshot, Run(calls, sorted(segments), peak, ooms)


def rules(settings: Settings, *, reuses: bool = True) -> dict[str, Any]:
    """Convert settings to the engine's format."""
    limit = settings.max_split_size
    return {
        "divisions": settings.roundup_power2_divisions,
        "max_split": -1 if limit is None else limit,
        "max_non_split": LARGE_SEGMENT,
        "large_segment": LARGE_SEGMENT,
        "expandable": settings.expandable_segments,
        "total": settings.capacity,
        "space": settings.capacity + settings.capacity // 8,
        "reuses": reuses,
    }


def simulated(
    snapshot: Snapshot, recorded: Settings, settings: Settings, *, reuses: bool = True
) -> Run:
    """Simulate a recording under other settings than those it was made with."""
    replay = mr.open(build.dump(snapshot)).replay(0)
    found = _simulating.Simulation(
        replay.blocks,
        replay.holding,
        recorded_limit=recorded.capacity,
        **rules(settings, reuses=reuses),
    )
    return as_run(found)


def as_run(found: _simulating.Simulation) -> Run:
    """Convert a simulation's results."""
    calls = [(_core.ACTIONS[code], at, size) for _, code, at, size, *_ in found.log()]
    return Run(calls, ranges(found), found.reserved_peak[0], len(found.failed()))


def ranges(found: _simulating.Simulation) -> list[Segment]:
    """Return the final segments as in a snapshot, where each mapped range is a segment."""
    segments: list[Segment] = []
    for address, stream, _, small, _, blocks in found.segments():
        at, behind = address, None
        for size, state, requested, _ in blocks:
            if state == _simulating.UNMAPPED:
                behind = None
            elif behind is None:
                behind = [(size, STATES[state], requested)]
                segments.append((at, stream, small, behind))
            else:
                behind.append((size, STATES[state], requested))
            at += size
    return sorted(segments)
