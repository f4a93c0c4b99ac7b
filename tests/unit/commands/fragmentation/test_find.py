"""Tests of commands/fragmentation/find.py."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.fragmentation.result import DeviceFragmentation, FragmentationReport
from memreplay.errors import UsageError
from memreplay.snapshot.model import When
from tests import build
from tests.allocator import MIB
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder
from tests.pictures import record_pictures
from tests.unit.commands.oom.test_find import ASK, KEEP, machine, scattered

GROWS = ("segment_alloc", "segment_map")  # the allocation that they are for comes next


def report(snapshot: build.Snapshot, **options: Any) -> FragmentationReport:
    return fragmentation_report(mr.open(build.dump(snapshot)), **options)


def only(snapshot: build.Snapshot, **options: Any) -> DeviceFragmentation:
    (found,) = report(snapshot, **options).devices
    assert_adds_up(found)
    return found


def assert_adds_up(one: DeviceFragmentation) -> None:
    inside = one.in_use_bytes + one.pending_bytes
    assert one.reserved_bytes == inside + one.free_bytes
    assert sum(share.free_bytes for share in one.pools) == one.free_bytes
    assert sum(share.reserved_bytes for share in one.pools) == one.reserved_bytes
    given = one.returned_bytes - one.returned_pending_bytes
    given += one.private_bytes - one.private_pending_bytes
    assert given + one.pinned_bytes == one.free_bytes
    assert sum(pin.bytes for pin in one.pins) + one.pins_rest_bytes == one.pinned_bytes
    assert sum(pin.alone_bytes for pin in one.pins) <= one.pinned_bytes
    for point in one.points:
        assert point.unused_bytes == point.reserved_bytes - point.active_bytes


def test_by_hand() -> None:
    one = only(scattered().dump()[0])
    (share,) = one.pools
    assert (share.pool, share.stream, share.kind, share.is_default) == ((0, 0), 0, "large", True)
    assert (one.segments, one.blocks_free, one.blocks_in_use) == (10, 20, 20)
    assert (one.free_bytes, one.largest_free_bytes) == (100 * MIB, 5 * MIB)
    assert one.scattered_share == pytest.approx(0.95)
    assert (one.returned_bytes, one.pinned_bytes, one.slack_bytes) == (0, 100 * MIB, 0)
    (pin,) = one.pins
    assert (pin.bytes, pin.count, pin.segments) == (100 * MIB, 20, 10)
    assert pin.frames[0].function == "append"
    at = {point.name: point for point in one.points}
    assert (at["most_unused"].event_index, at["most_unused"].unused_bytes) == (89, 100 * MIB)
    # The verdict is of the request that failed.
    assert (one.moment, one.event_index) == ("oom", at["oom"].event_index) == ("oom", 90)
    assert (one.exactness, one.trusted) == ("exact", True)


def two_pins() -> build.Snapshot:
    """12 MiB free of a segment of 20 beside 2 MiB of one stack and 6 of another."""
    made, device = machine(80 * MIB)
    device.malloc(2 * MIB, 0, KEEP)
    device.malloc(6 * MIB, 0, ASK)
    return made.dump()[0]


def test_a_part_for_each_block_that_pins() -> None:
    one = only(two_pins(), at=When("event", 1))
    assert (one.pinned_bytes, one.pins_total) == (18 * MIB, 1)
    one = only(two_pins(), at=When("end"))
    assert one.pinned_bytes == 12 * MIB
    assert [(pin.bytes, pin.alone_bytes) for pin in one.pins] == [(6 * MIB, 0)] * 2
    cut = only(two_pins(), at=When("end"), top=1)
    assert (cut.pins_total, cut.pins_rest_bytes, cut.pins_rest_count) == (2, 6 * MIB, 1)


def test_private_pools_are_told_apart() -> None:
    made, device = machine(200 * MIB)
    device.begin_pool((1, 0))
    block = device.malloc(64 * MIB)
    device.end_pool()
    other = device.malloc(32 * MIB)
    assert block is not None
    assert other is not None
    device.free(block)
    device.free(other)
    one = only(made.dump()[0], at=When("end"))
    assert (one.returned_bytes, one.private_bytes, one.pinned_bytes) == (32 * MIB, 64 * MIB, 0)
    assert [(share.pool, share.is_default) for share in one.pools] == [
        ((1, 0), False),
        ((0, 0), True),
    ]
    # Without pools in the events the private one is known by its segment alone.
    same = only(made.dump(event_pools=False)[0], at=When("end"))
    assert same.pools == one.pools


def test_pending_blocks_go_with_empty_cache() -> None:
    made, device = machine(200 * MIB)
    block = device.malloc(16 * MIB)
    assert block is not None
    device.record_stream(block, 7)
    device.free(block)
    one = only(made.dump()[0], at=When("end"))
    assert (one.pending_bytes, one.free_bytes) == (16 * MIB, 0)
    assert (one.returned_bytes, one.returned_pending_bytes) == (16 * MIB, 16 * MIB)


def test_the_moment_may_be_chosen() -> None:
    snapshot = scattered().dump()[0]
    one = only(snapshot, at=When("peak", 1))
    assert (one.free_bytes, one.in_use_bytes) == (0, 200 * MIB)
    assert only(snapshot, at=When("start")).reserved_bytes == 0
    with pytest.raises(UsageError, match="has no event 9999"):
        only(snapshot, at=When("event", 9999))


def test_without_events_it_is_the_final_state() -> None:
    snapshot = scattered().dump()[0]
    bare = snapshot | {"device_traces": [[]]}
    one = only(bare)
    assert (one.events, one.event_index, one.pinned_bytes) == (0, -1, 100 * MIB)
    assert one.reasons == ("no_events",)
    assert {point.name for point in one.points} == {"most_unused", "peak", "reserved"}


def test_without_segments() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512).build()
    (one,) = report(made).devices
    assert (one.moment, one.reserved_bytes, one.outside_count) == ("peak", 0, 1)
    (one,) = report(made, at=When("start")).devices
    assert (one.moment, one.reserved_bytes, one.outside_count) == ("asked", 0, 0)
    (one,) = report(made, at=When("end")).devices
    assert (one.reserved_bytes, one.outside_bytes, one.outside_count) == (0, 512, 1)
    assert report(SnapshotBuilder().build()).devices == ()


def test_the_map() -> None:
    one = only(scattered().dump()[0], at=When("end"), bars=16, top=3)
    assert (len(one.map), one.map_total) == (3, 10)
    assert {segment.bar for segment in one.map} == {"....####....####"}
    assert all(segment.blocks == () for segment in one.map)
    one = only(scattered().dump()[0], at=When("end"), blocks=True, top=3)
    assert len(one.map) == 10
    labels = {block.label for segment in one.map for block in segment.blocks}
    assert labels == {"", "append /srv/cache.py:27"}
    for segment in one.map:
        assert sum(block.bytes for block in segment.blocks) == segment.reserved_bytes


@pytest.mark.parametrize("seed", range(30))
def test_the_course_is_the_allocators(seed: int) -> None:
    settings = ("default", "expandable", "max split")[seed % 3]
    made = record(seed, settings=settings, steps=150)
    (truth,) = made.truths
    one = only(made.snapshot)
    series = [truth.series(name) for name in ("reserved", "active")]
    unused = [0, *(r - a for r, a in zip(*series, strict=True))]
    grows = [one.event["action"] in GROWS for one in truth.recorded]
    settled = [(size, -at) for at, size in enumerate(unused) if not at or not grows[at - 1]]
    most = next(point for point in one.points if point.name == "most_unused")
    assert (most.unused_bytes, most.event_index) == (max(settled)[0], -max(settled)[1] - 1)
    for point in one.points:
        assert point.unused_bytes == unused[point.event_index + 1]


@pytest.mark.parametrize("seed", range(30))
def test_random_moments_add_up(seed: int) -> None:
    settings = random.Random(seed).choice(["default", "expandable", "crowded", "max split"])
    made = record_pictures(seed, settings, steps=120, late=seed % 2 * 60)
    snap = mr.open(build.dump(made.snapshot))
    for want in made.pictures:
        at = When("event", want.event)
        for one in fragmentation_report(snap, at=at, by="function", top=2).devices:
            assert_adds_up(one)


def late_start() -> build.Snapshot:
    """12 of 20 MiB unused from the start on, then less."""
    made, device = machine(80 * MIB)
    device.malloc(8 * MIB)
    made.begin_recording()
    device.malloc(5 * MIB, 0, ASK)
    return made.dump()[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_mean_is_that_over_time(seed: int) -> None:
    snap = mr.open(build.dump(record(seed, late=seed % 2 * 50).snapshot))
    (one,) = fragmentation_report(snap).devices
    replay = snap.replay(one.device)
    reserved, active = (replay.measure(name).series.tolist() for name in ("reserved", "active"))
    times = snap.events.time_us.tolist()
    whole = lasted = 0
    for i, later in enumerate(times[1:]):
        whole += (reserved[i] - active[i]) * (later - times[i])
        lasted += later - times[i]
    assert lasted
    assert one.mean_unused_bytes == pytest.approx(whole / lasted, abs=1)


def test_most_may_be_unused_at_the_start() -> None:
    one = only(late_start())
    most = next(point for point in one.points if point.name == "most_unused")
    assert (most.event_index, most.unused_bytes) == (-1, 12 * MIB)
    # What was cached then stood in nobody's way.
    assert (one.moment, one.event_index, one.free_bytes) == ("peak", 0, 7 * MIB)


def test_an_idle_cache_at_the_start_is_not_the_verdict() -> None:
    made, device = machine(300 * MIB)
    block = device.malloc(200 * MIB)
    assert block is not None
    device.free(block)
    made.begin_recording()
    device.malloc(198 * MIB, 0, KEEP)
    one = only(made.dump()[0])
    at = {point.name: point for point in one.points}
    assert (at["most_unused"].event_index, at["most_unused"].unused_bytes) == (-1, 200 * MIB)
    # Reserved memory is at its peak all along: of that, where most is active.
    assert at["reserved"].event_index == at["peak"].event_index == one.event_index == 0
    assert (one.moment, one.free_bytes) == ("peak", 2 * MIB)


def test_the_peak_of_reserved_that_the_recording_reached() -> None:
    made, device = machine(300 * MIB)
    made.begin_recording()
    first = [device.malloc(30 * MIB, 0, KEEP) for _ in range(3)]
    for block in first[:2]:
        assert block is not None
        device.free(block)
    device.malloc(70 * MIB, 0, ASK)  # two of 30 MiB do not serve it
    device.empty_cache()
    device.malloc(25 * MIB, 0, ASK)
    one = only(made.dump()[0])
    at = {point.name: point for point in one.points}
    assert one.moment == "reserved"
    assert one.event_index == at["reserved"].event_index
    assert (one.reserved_bytes, one.free_bytes) == (160 * MIB, 60 * MIB)


def test_memory_that_comes_first_is_not_unused() -> None:
    made, device = machine(80 * MIB)
    device.malloc(8 * MIB)
    made.begin_recording()
    device.malloc(38 * MIB + MIB // 2, 0, ASK)
    one = only(made.dump()[0])
    most = next(point for point in one.points if point.name == "most_unused")
    assert (most.event_index, most.unused_bytes) == (1, 13 * MIB + MIB // 2)


def test_a_map_says_what_is_older_than_the_recording() -> None:
    one = only(late_start(), at=When("end"), blocks=True)
    labels = [block.label for block in one.map[0].blocks if block.state != "free"]
    assert labels == ["(allocated before the recording)", "attention /srv/model.py:52"]
