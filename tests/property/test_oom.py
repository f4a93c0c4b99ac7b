"""Failed requests of random programs: what the model of the allocator had, and did in a retry."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.oom import oom_report
from memreplay.results.oom import Oom
from tests import build
from tests.allocator import DEFAULT_POOL, MIB, Device, Machine, PoolId, Settings
from tests.allocator_strategies import Program
from tests.pictures import Range, picture, ranges


class Failure(NamedTuple):
    """A failed request, and what was there."""

    size: int
    stream: int
    pool: PoolId
    ranges: list[Range]
    returnable: int  # by empty_cache() before
    retried: bool  # whether it succeeds after that


class Watched:
    """A random program on a crowded device, with what was there when a request failed."""

    def __init__(self, seed: int, chosen: Settings, steps: int) -> None:
        machine = Machine(chosen)
        (self.device,) = machine.devices
        self.found: dict[int, Failure] = {}
        self.record: Callable[..., None] = self.device.record
        machine.begin_recording()
        self.device.record = self.note  # type: ignore[method-assign]
        Program(self.device, random.Random(seed), private_pools=True).run(steps)
        del self.device.record
        self.snapshot, _ = machine.dump()

    def note(
        self, action: str, addr: int | None, size: int, stream: int, pool: PoolId, **more: Any
    ) -> None:
        self.record(action, addr, size, stream, pool, **more)
        if action != "oom":
            return
        del self.device.record
        self.found[len(self.device.history) - 1] = Failure(
            size,
            stream,
            pool,
            ranges(self.device),
            picture(self.device).returned,
            retried(self.device, size, stream),
        )
        self.device.record = self.note  # type: ignore[method-assign]


def retried(device: Device, size: int, stream: int) -> bool:
    """Whether the request succeeds where empty_cache() was called before."""
    again = copy.copy(device)
    again.history, again.frame_dicts = [], {}
    again = copy.deepcopy(again)
    pool = again.capturing
    again.end_pool()
    again.released_pools = set()
    again.empty_cache()
    if pool is not None:
        again.begin_pool(pool)
    return again.malloc(size, stream) is not None


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    capacity=st.sampled_from([60, 100, 150]),
    expandable=st.booleans(),
    limit=st.sampled_from([None, 21, 24]),
    steps=st.integers(20, 150),
)
def test_failures(
    seed: int, capacity: int, expandable: bool, limit: int | None, steps: int
) -> None:
    chosen = Settings(
        capacity=capacity * MIB,
        expandable_segments=expandable,
        max_split_size=None if limit is None else limit * MIB,
    )
    made = Watched(seed, chosen, steps)
    snap = mr.open(build.dump(made.snapshot))
    found = [oom for device in oom_report(snap, top=0).devices for oom in device.ooms]
    assert [oom.event_index for oom in found] == sorted(made.found)
    for oom in found:
        assert_is(oom, made.found[oom.event_index], capacity * MIB)


def assert_is(oom: Oom, want: Failure, capacity: int) -> None:
    assert (oom.request_bytes, oom.stream, oom.pool) == (want.size, want.stream, want.pool)
    assert oom.pending_bytes == sum(one.sum("pending") for one in want.ranges)
    assert oom.device_free_bytes == capacity - sum(one.size for one in want.ranges)
    serving = "too_late", "split_limit"
    parts = {part.name: part.bytes for part in oom.parts if part.name not in serving}
    fits = sum(part.bytes for part in oom.parts if part.name in serving)
    slow: dict[str, int] = {}
    for one in want.ranges:
        for tile in one.tiles:
            if tile.state == "free":
                why = reason(one, tile.size, want)
                slow[why] = slow.get(why, 0) + tile.size
    assert fits == slow.pop("fits", 0)
    assert parts == slow
    helps = {one.name: one for one in oom.remedies}
    assert ("empty_cache" in helps) == (want.returnable > 0)
    if want.returnable:
        assert helps["empty_cache"].bytes == want.returnable
        assert want.retried or not helps["empty_cache"].enough
    private = sum(
        one.sum("free") for one in want.ranges if one.pool not in (DEFAULT_POOL, want.pool)
    )
    assert (helps["private_pools"].bytes if "private_pools" in helps else 0) == private


def reason(one: Range, size: int, want: Failure) -> str:
    if one.pool != want.pool:
        return "other_pool"
    if one.small != (want.size <= MIB):
        return "other_kind"
    if one.stream != want.stream:
        return "other_stream"
    return "fits" if size >= want.size else "too_small"
