"""Tests of commands/fragmentation/find.py."""

from __future__ import annotations

import random
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.fragmentation.result import DeviceFragmentation, FragmentationReport
from memreplay.commands.oom.find import oom_report
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import MEASURES, When
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder
from tests.pictures import record_pictures
from tests.unit.commands.oom.test_find import ASK, KEEP, machine, scattered

GROWS = ("segment_alloc", "segment_map")  # the next allocation could use this memory


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
    for point in one.moments:
        assert point.unused_bytes == point.reserved_bytes - point.active_bytes


def test_numbers_match_those_worked_out_by_hand() -> None:
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
    at = {point.name: point for point in one.moments}
    assert (at["most_unused"].event_index, at["most_unused"].unused_bytes) == (89, 100 * MIB)
    # The verdict is about the failed request.
    assert (one.moment_kind, one.event_index) == ("oom", at["oom"].event_index) == ("oom", 90)
    assert (one.exactness, one.trusted) == ("exact", True)


def two_pins() -> build.Snapshot:
    """Build a segment that two used blocks keep from being released."""
    made, device = machine(80 * MIB)
    device.malloc(2 * MIB, 0, KEEP)
    device.malloc(6 * MIB, 0, ASK)
    return made.dump()[0]


def test_every_pinning_block_has_a_share() -> None:
    one = only(two_pins(), at=When("event", 1))
    assert (one.pinned_bytes, one.pins_total) == (18 * MIB, 1)
    one = only(two_pins(), at=When("end"))
    assert one.pinned_bytes == 12 * MIB
    assert [(pin.bytes, pin.alone_bytes) for pin in one.pins] == [(6 * MIB, 0)] * 2
    cut = only(two_pins(), at=When("end"), top=1)
    assert (cut.pins_total, cut.pins_rest_bytes, cut.pins_rest_count) == (2, 6 * MIB, 1)


def test_private_pools_are_distinguished_from_others() -> None:
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
    # If events have no pools, only the segment shows that the pool is private.
    same = only(made.dump(event_pools=False)[0], at=When("end"))
    assert same.pools == one.pools


def test_empty_cache_releases_pending_blocks() -> None:
    made, device = machine(200 * MIB)
    block = device.malloc(16 * MIB)
    assert block is not None
    device.record_stream(block, 7)
    device.free(block)
    one = only(made.dump()[0], at=When("end"))
    assert (one.pending_bytes, one.free_bytes) == (16 * MIB, 0)
    assert (one.returned_bytes, one.returned_pending_bytes) == (16 * MIB, 16 * MIB)


def test_moment_can_be_chosen() -> None:
    snapshot = scattered().dump()[0]
    one = only(snapshot, at=When("peak", 1))
    assert (one.free_bytes, one.in_use_bytes) == (0, 200 * MIB)
    assert only(snapshot, at=When("start")).reserved_bytes == 0
    with pytest.raises(UsageError, match="has no event 9999"):
        only(snapshot, at=When("event", 9999))


def test_without_events_the_final_state_is_shown() -> None:
    snapshot = scattered().dump()[0]
    bare = snapshot | {"device_traces": [[]]}
    one = only(bare)
    assert (one.events, one.event_index, one.pinned_bytes) == (0, -1, 100 * MIB)
    assert one.reasons == ("no_events",)
    assert {point.name for point in one.moments} == {"most_unused", "peak", "reserved"}


def test_missing_segments_are_an_error() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512).build()
    for at in (None, When("start")):
        with pytest.raises(
            NothingToTellError,
            match="reserved memory isn't known",
        ):
            report(made, at=at)
    both = SnapshotBuilder(2).alloc(0x1000, 512).segment_alloc(0x8000, 2 << 20, 1)
    found = report(both.alloc(0x8000, 512, 1).build())
    assert [one.device for one in found.devices] == [1]
    assert len(found.missing) == 1
    assert report(SnapshotBuilder().build()).devices == ()


def test_map_shows_the_segments_with_most_free_memory() -> None:
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
def test_series_match_the_allocator(seed: int) -> None:
    settings = ("default", "expandable", "max split")[seed % 3]
    made = record(seed, settings=settings, steps=150)
    (truth,) = made.truths
    one = only(made.snapshot)
    series = [truth.series(name) for name in ("reserved", "active")]
    unused = [0, *(r - a for r, a in zip(*series, strict=True))]
    grows = [one.event["action"] in GROWS for one in truth.recorded]
    settled = [(size, -at) for at, size in enumerate(unused) if not at or not grows[at - 1]]
    most = next(point for point in one.moments if point.name == "most_unused")
    assert (most.unused_bytes, most.event_index) == (max(settled)[0], -max(settled)[1] - 1)
    for point in one.moments:
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
    """Build a recording in which 12 of 20 MiB are unused at the start and less later."""
    made, device = machine(80 * MIB)
    device.malloc(8 * MIB)
    made.begin_recording()
    device.malloc(5 * MIB, 0, ASK)
    return made.dump()[0]


@pytest.mark.parametrize("seed", range(6))
def test_mean_is_weighted_by_time(seed: int) -> None:
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


def test_maximum_unused_may_be_at_the_start() -> None:
    one = only(late_start())
    most = next(point for point in one.moments if point.name == "most_unused")
    assert (most.event_index, most.unused_bytes) == (-1, 12 * MIB)
    # Memory that was cached at the start did no harm.
    assert (one.moment_kind, one.event_index, one.free_bytes) == ("peak", 0, 7 * MIB)


def test_idle_cache_at_the_start_does_not_decide_the_verdict() -> None:
    made, device = machine(300 * MIB)
    block = device.malloc(200 * MIB)
    assert block is not None
    device.free(block)
    made.begin_recording()
    device.malloc(198 * MIB, 0, KEEP)
    one = only(made.dump()[0])
    at = {point.name: point for point in one.moments}
    assert (at["most_unused"].event_index, at["most_unused"].unused_bytes) == (-1, 200 * MIB)
    # Reserved memory is always at its peak, so the moment with the most active memory counts.
    assert at["reserved"].event_index == at["peak"].event_index == one.event_index == 0
    assert (one.moment_kind, one.free_bytes) == ("peak", 2 * MIB)


def test_unused_memory_is_measured_at_the_reserved_peak() -> None:
    made, device = machine(300 * MIB)
    made.begin_recording()
    first = [device.malloc(30 * MIB, 0, KEEP) for _ in range(3)]
    for block in first[:2]:
        assert block is not None
        device.free(block)
    device.malloc(70 * MIB, 0, ASK)  # two free blocks of 30 MiB don't suffice
    device.empty_cache()
    device.malloc(25 * MIB, 0, ASK)
    one = only(made.dump()[0])
    at = {point.name: point for point in one.moments}
    assert one.moment_kind == "reserved"
    assert one.event_index == at["reserved"].event_index
    assert (one.reserved_bytes, one.free_bytes) == (160 * MIB, 60 * MIB)


def test_memory_that_the_first_request_uses_is_not_unused() -> None:
    made, device = machine(80 * MIB)
    device.malloc(8 * MIB)
    made.begin_recording()
    device.malloc(38 * MIB + MIB // 2, 0, ASK)
    one = only(made.dump()[0])
    most = next(point for point in one.moments if point.name == "most_unused")
    assert (most.event_index, most.unused_bytes) == (1, 13 * MIB + MIB // 2)


def test_map_labels_memory_from_before_the_recording() -> None:
    one = only(late_start(), at=When("end"), blocks=True)
    labels = [block.label for block in one.map[0].blocks if block.state != "free"]
    assert labels == ["(allocated before the recording)", "attention /srv/model.py:52"]


def test_only_the_measures_shown_decide_whether_numbers_are_exact() -> None:
    """A free without a request leaves doubts about held and allocated, but not about active."""
    made = Machine()
    device = made.devices[0]
    blocks = [device.malloc(30 * MIB) for _ in range(2)]
    made.begin_recording()
    for block in blocks:
        assert block is not None
        device.free(block)
    device.malloc(20 * MIB)
    snapshot = made.dump()[0]
    events = snapshot["device_traces"][0]
    events.pop([event["action"] for event in events].index("free_requested"))
    snap = mr.open(build.dump(snapshot))
    verdicts = {name: verdict(snap, snap.replay().measure(name)) for name in MEASURES}
    assert verdicts["allocated"].exactness == "estimated"
    assert verdicts["active"].exactness == verdicts["reserved"].exactness == "exact"
    (found,), (failed,) = fragmentation_report(snap).devices, oom_report(snap).devices
    assert (found.exactness, failed.exactness) == ("exact", "exact")
    assert "pending_at_start" in found.reasons
    assert "pending_at_start" in failed.reasons
