"""idle: segments that are empty at the start, and requests that should have used them."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.replay._measures import Blocks
from tests import build
from tests.allocator import Device, Machine
from tests.allocator_blocks import MIB, Settings


def machine(**settings: Any) -> tuple[Machine, Device]:
    made = Machine(Settings(**settings))
    return made, made.devices[0]


def blocks(made: Machine, *left_out: int) -> Blocks:
    """Return a dump without the segment events at these positions."""
    snapshot = made.dump()[0]
    (trace,) = snapshot["device_traces"]
    of_segments = [at for at, event in enumerate(trace) if event["action"].startswith("segment")]
    gone = {of_segments[number] for number in left_out}
    snapshot["device_traces"] = [[event for at, event in enumerate(trace) if at not in gone]]
    return mr.open(build.dump(snapshot)).replay(0).blocks


def cached(device: Device, *sizes: int) -> None:
    """Leave empty segments of these sizes."""
    for block in [device.malloc(size) for size in sizes]:
        assert block is not None
        device.free(block)


def test_used_cached_segment_is_not_reported() -> None:
    made, device = machine()
    cached(device, 30 * MIB, 40 * MIB)
    made.begin_recording()
    device.malloc(25 * MIB)
    device.malloc(35 * MIB)
    device.malloc(50 * MIB)
    found = blocks(made)
    # The sizes show that both segments are older than the requests of 25 and 35 MiB that use them.
    assert (found.passed_over, found.fitting) == (0, 0)


def test_segment_possibly_created_by_its_first_block_is_not_reported() -> None:
    made, device = machine()
    cached(device, 30 * MIB, 100)
    made.begin_recording()
    device.malloc(29 * MIB)
    device.malloc(7)
    assert (blocks(made).passed_over, blocks(made).fitting) == (0, 2)


def test_missing_segment_event_shows_in_a_request_that_used_a_larger_segment() -> None:
    made, device = machine()
    cached(device, 60 * MIB)
    made.begin_recording()
    device.malloc(28 * MIB)  # of the 60
    device.malloc(38 * MIB)
    assert blocks(made).passed_over == 0
    # If 38 MiB had existed, the first request would have used them.
    assert blocks(made, 0).passed_over == 1


def test_missing_segment_event_shows_in_a_request_to_the_driver() -> None:
    made, device = machine()
    made.begin_recording()
    device.malloc(30 * MIB)
    device.malloc(40 * MIB)
    assert (blocks(made).passed_over, blocks(made, 0).passed_over) == (0, 0)
    assert blocks(made, 1).passed_over == 1


@pytest.mark.parametrize("expandable", [False, True])
def test_other_streams_pools_and_kinds_prove_nothing(expandable: bool) -> None:
    made, device = machine(expandable_segments=expandable)
    cached(device, 40 * MIB)
    made.begin_recording()
    device.malloc(30 * MIB, 7)
    device.malloc(100)
    device.begin_pool((1, 0))
    device.malloc(30 * MIB)
    device.end_pool()
    assert blocks(made).passed_over == 0


def test_driver_is_used_at_once_after_a_release() -> None:
    """A free that completes in the meantime would do, but the allocator doesn't check again."""
    made, device = machine(capacity=60 * MIB)
    kept = device.malloc(24 * MIB)
    assert kept is not None
    cached(device, 30 * MIB)
    made.begin_recording()
    device.record_stream(kept, 7)
    device.free(kept)
    device.malloc(32 * MIB)
    assert blocks(made).passed_over == 0


def test_blocks_above_the_limit_serve_only_larger_requests() -> None:
    made, device = machine(max_split_size=20 * MIB)
    cached(device, 30 * MIB)
    made.begin_recording()
    device.malloc(15 * MIB)
    assert blocks(made).passed_over == 0
