"""Reports on failed requests in random programs match the allocator model's state, and a retry in
the model.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.result import Oom
from tests import build
from tests.allocator import Device, Machine
from tests.allocator_blocks import (
    DEFAULT_POOL,
    LARGE_SEGMENT,
    MIB,
    SMALL_SEGMENT,
    SMALL_SIZE,
    PoolId,
    Settings,
    segment_size,
)
from tests.allocator_strategies import Program
from tests.examples import examples
from tests.pictures import Range, picture, ranges


class Failure(NamedTuple):
    """A failed request, and the state at that time."""

    size: int
    stream: int
    pool: PoolId
    ranges: list[Range]
    returnable: int  # bytes that empty_cache() frees before the request
    retried: bool  # whether the request succeeds after empty_cache()


class Watched:
    """A random program on a nearly full device; it captures the state whenever a request fails."""

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
    """Return whether the request succeeds if empty_cache() is called first."""
    again = copy.copy(device)
    again.history, again.frame_dicts = [], {}
    # This does the same as deepcopy(), in a tenth of the time.
    again = pickle.loads(pickle.dumps(again, pickle.HIGHEST_PROTOCOL))
    pool = again.capturing
    again.end_pool()
    again.released_pools = set()
    again.empty_cache()
    if pool is not None:
        again.begin_pool(pool)
    return again.malloc(size, stream) is not None


@settings(max_examples=examples(200))
@given(
    seed=st.integers(0, 2**32 - 1),
    capacity=st.sampled_from([60, 100, 150]),
    expandable=st.booleans(),
    limit=st.sampled_from([None, 21, 24]),
    steps=st.integers(20, 150),
)
def test_failed_requests_match_the_model(
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
        assert_is(oom, made.found[oom.event_index], chosen)


def assert_is(oom: Oom, want: Failure, chosen: Settings) -> None:
    free = chosen.capacity - sum(one.size for one in want.ranges)
    judged = judge(want, chosen)
    assert (oom.request_bytes, oom.stream, oom.pool) == (want.size, want.stream, want.pool)
    assert oom.pending_bytes == sum(one.sum("pending") for one in want.ranges)
    assert (oom.device_free_bytes, oom.needed_bytes) == (free, needed(want.size, chosen))
    assert {part.name: (part.bytes, part.largest_bytes) for part in oom.cached} == {
        name: (sum(sizes), max(sizes)) for name, sizes in judged.items()
    }
    assert oom.cause == cause(want, judged, free, chosen)
    helps = {one.name: one for one in oom.remedies}
    assert ("empty_cache" in helps) == (want.returnable > 0)
    if want.returnable:
        assert helps["empty_cache"].bytes == want.returnable
        assert want.retried or not helps["empty_cache"].enough
    private = sum(
        one.sum("free") for one in want.ranges if one.pool not in (DEFAULT_POOL, want.pool)
    )
    assert (helps["private_pools"].bytes if "private_pools" in helps else 0) == private
    room = sum(judged.get("too_small", ())) if not chosen.expandable_segments else 0
    assert (helps["expandable_segments"].bytes if "expandable_segments" in helps else 0) == room
    limited = splits(want, judged, chosen)
    assert (helps["max_split_size"].bytes if "max_split_size" in helps else 0) == limited


def needed(size: int, chosen: Settings) -> int:
    """Return the size requested from the driver, as in docs/allocator.md."""
    if not chosen.expandable_segments:
        return segment_size(size)
    handle = SMALL_SEGMENT if size <= SMALL_SIZE else LARGE_SEGMENT
    return -(-size // handle) * handle


def serves(one: Range, want: Failure) -> bool:
    return (one.pool, one.small, one.stream) == (want.pool, want.size <= MIB, want.stream)


def judge(want: Failure, chosen: Settings) -> dict[str, list[int]]:
    """Return the free blocks, grouped by the reason they weren't used."""
    found: dict[str, list[int]] = {}
    for one in want.ranges:
        for tile in one.tiles:
            if tile.state == "free":
                found.setdefault(reason(one, tile.size, want, chosen), []).append(tile.size)
    return found


def reason(one: Range, size: int, want: Failure, chosen: Settings) -> str:
    limit = chosen.max_split_size
    if one.pool != want.pool:
        return "other_pool"
    if one.small != (want.size <= MIB):
        return "other_kind"
    if one.stream != want.stream:
        return "other_stream"
    if size < want.size:
        return "too_small"
    if limit is not None and want.size < limit <= size:
        return "split_limit"
    if limit is not None and want.size >= limit and size >= want.size + LARGE_SEGMENT:
        return "split_limit"
    return "too_late"


def splits(want: Failure, judged: dict[str, list[int]], chosen: Settings) -> int:
    """Return the bytes that max_split_size_mb protects or, if it isn't set, could have
    protected.
    """
    if chosen.max_split_size is not None:
        return sum(judged.get("split_limit", ()))
    if chosen.expandable_segments or want.size <= MIB:
        return 0
    larger = [one for one in want.ranges if serves(one, want) and one.size > LARGE_SEGMENT]
    free = [tile.size for one in larger for tile in one.tiles if tile.state == "free"]
    return sum(size for size in free if size < want.size)


def cause(want: Failure, judged: dict[str, list[int]], free: int, chosen: Settings) -> str:
    """Determine the cause by following the table in docs/oom.md from top to bottom."""
    whole = {name: sum(sizes) for name, sizes in judged.items()}
    other_pool = judged.get("other_pool", []) + judged.get("other_kind", [])
    if free >= needed(want.size, chosen):
        return "process_limit"
    if "too_late" in judged:
        return "pending_frees"
    if "split_limit" in judged:
        return "split_limit"
    if any(longest_run(one) >= want.size for one in want.ranges if serves(one, want)):
        return "pending_frees"
    if whole.get("too_small", 0) >= want.size:
        return "fragmentation"
    if max(judged.get("other_stream", [0])) >= want.size:
        return "other_stream"
    if max(other_pool, default=0) >= want.size:
        return "other_pool"
    shares = [
        (whole.get("too_small", 0), "fragmentation"),
        (whole.get("other_stream", 0), "other_stream"),
        (sum(other_pool), "other_pool"),
        (sum(one.sum("pending") for one in want.ranges), "pending_frees"),
    ]
    if free + sum(size for size, _ in shares) >= want.size:
        return max(shares, key=lambda share: share[0])[1]
    return "capacity"


def longest_run(one: Range) -> int:
    """Return the largest block's size if all pending blocks were free, or 0 if there are none."""
    best = run = 0
    for tile in one.tiles:
        run = 0 if tile.state == "in_use" else run + tile.size
        best = max(best, run)
    return best if one.sum("pending") else 0
