"""idle: segments of the start with nothing in them, and the requests that passed them by."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.replay._measures import Blocks
from tests import build
from tests.allocator import MIB, Device, Machine, Settings


def machine(**settings: Any) -> tuple[Machine, Device]:
    made = Machine(Settings(**settings))
    return made, made.devices[0]


def blocks(made: Machine, *left_out: int) -> Blocks:
    """Of a dump without the segment events of these numbers."""
    snapshot = made.dump()[0]
    (trace,) = snapshot["device_traces"]
    of_segments = [at for at, event in enumerate(trace) if event["action"].startswith("segment")]
    gone = {of_segments[number] for number in left_out}
    snapshot["device_traces"] = [[event for at, event in enumerate(trace) if at not in gone]]
    return mr.open(build.dump(snapshot)).replay(0).blocks


def cached(device: Device, *sizes: int) -> None:
    """Leaves segments of these sizes with nothing in them."""
    for block in [device.malloc(size) for size in sizes]:
        assert block is not None
        device.free(block)


def test_a_cached_segment_is_used_and_says_nothing() -> None:
    made, device = machine()
    cached(device, 30 * MIB, 40 * MIB)
    made.begin_recording()
    device.malloc(25 * MIB)
    device.malloc(35 * MIB)
    device.malloc(50 * MIB)
    found = blocks(made)
    # 30 MiB were made for 30, not for 25; neither were 40 for 35.
    assert (found.passed, found.fitting) == (0, 0)


def test_one_whose_first_block_would_have_made_it() -> None:
    made, device = machine()
    cached(device, 30 * MIB, 100)
    made.begin_recording()
    device.malloc(29 * MIB)
    device.malloc(7)
    assert (blocks(made).passed, blocks(made).fitting) == (0, 2)


def test_a_request_that_took_more_than_it_needed() -> None:
    made, device = machine()
    cached(device, 60 * MIB)
    made.begin_recording()
    device.malloc(28 * MIB)  # of the 60
    device.malloc(38 * MIB)
    assert blocks(made).passed == 0
    # As if 38 MiB had been there: of them the first would have been taken.
    assert blocks(made, 0).passed == 1


def test_a_request_for_which_the_driver_was_asked() -> None:
    made, device = machine()
    made.begin_recording()
    device.malloc(30 * MIB)
    device.malloc(40 * MIB)
    assert (blocks(made).passed, blocks(made, 0).passed) == (0, 0)
    assert blocks(made, 1).passed == 1


@pytest.mark.parametrize("expandable", [False, True])
def test_other_streams_pools_and_kinds_are_no_proof(expandable: bool) -> None:
    made, device = machine(expandable_segments=expandable)
    cached(device, 40 * MIB)
    made.begin_recording()
    device.malloc(30 * MIB, 7)
    device.malloc(100)
    device.begin_pool((1, 0))
    device.malloc(30 * MIB)
    device.end_pool()
    assert blocks(made).passed == 0


def test_after_memory_was_given_back_the_driver_is_asked_at_once() -> None:
    """A free that completes meanwhile would serve, but nobody looks again."""
    made, device = machine(capacity=60 * MIB)
    kept = device.malloc(24 * MIB)
    assert kept is not None
    cached(device, 30 * MIB)
    made.begin_recording()
    device.record_stream(kept, 7)
    device.free(kept)
    device.malloc(32 * MIB)
    assert blocks(made).passed == 0


def test_blocks_from_a_limit_on_are_for_larger_requests_alone() -> None:
    made, device = machine(max_split_size=20 * MIB)
    cached(device, 30 * MIB)
    made.begin_recording()
    device.malloc(15 * MIB)
    assert blocks(made).passed == 0
