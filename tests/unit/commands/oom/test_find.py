"""Tests of commands/oom/find.py: the allocator model fails in each possible way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.oom.find import OWN_OVERHEAD, oom_report
from memreplay.commands.oom.result import CachedPart, Oom, OomReport, Remedy
from memreplay.commands.oom.text import remedy_text
from memreplay.errors import UsageError
from memreplay.snapshot.model import Frame
from tests import build
from tests.allocator import Device, Machine
from tests.allocator_blocks import GIB, KIB, MIB, Settings, Stack
from tests.allocator_strategies import record
from tests.build import Snapshot

ASK: Stack = (("attention", "/srv/model.py", 52), ("main", "/srv/main.py", 3))
KEEP: Stack = (("append", "/srv/cache.py", 27), ("main", "/srv/main.py", 5))


def machine(capacity: int, **settings: Any) -> tuple[Machine, Device]:
    made = Machine(Settings(capacity=capacity, **settings))
    made.begin_recording()
    return made, made.devices[0]


def fail(device: Device, size: int, stream: int = 0) -> None:
    assert device.malloc(size, stream, ASK) is None


def report(made: Machine | Snapshot, **options: Any) -> OomReport:
    snapshot = made.dump()[0] if isinstance(made, Machine) else made
    return oom_report(mr.open(build.dump(snapshot)), **options)


def only(made: Machine | Snapshot, **options: Any) -> Oom:
    (device,) = report(made, **options).devices
    (found,) = device.ooms
    assert (device.trusted, device.exactness) == (True, "exact")
    assert_adds_up(found)
    return found


def assert_adds_up(oom: Oom) -> None:
    assert sum(part.bytes for part in oom.cached) == oom.cached_bytes
    assert oom.active_bytes + oom.cached_bytes == oom.reserved_bytes
    assert sum(group.bytes for group in oom.groups) + oom.rest_bytes == oom.active_bytes
    assert sum(group.count for group in oom.groups) + oom.rest_count == oom.live_count
    assert sum(pin.bytes for pin in oom.pins) + oom.pins_rest_bytes == oom.pinned_bytes


def remedies(oom: Oom) -> dict[str, Remedy]:
    return {one.name: one for one in oom.remedies}


def scattered() -> Machine:
    """Free every second block of 5 MiB: 100 MiB in total on a 200 MiB card."""
    made, device = machine(200 * MIB)
    blocks = [device.malloc(5 * MIB, 0, KEEP) for _ in range(40)]
    for block in blocks[::2]:
        assert block is not None
        device.free(block)
    fail(device, 30 * MIB)
    return made


# --- one program per cause ------------------------------------------------------------------------


def test_fragmentation_is_the_cause() -> None:
    oom = only(scattered())
    assert oom.cause == "fragmentation"
    assert (oom.request_bytes, oom.needed_bytes, oom.missing_bytes) == (30 * MIB,) * 3
    assert (oom.reserved_bytes, oom.active_bytes) == (200 * MIB, 100 * MIB)
    assert oom.cached == (CachedPart("too_small", 100 * MIB, 5 * MIB),)
    assert oom.asked_by.frames[0] == Frame("attention", "/srv/model.py", 52)
    # Every 20 MiB page has a used block, so expandable segments don't help.
    assert remedies(oom)["expandable_segments"] == Remedy(
        "expandable_segments", 100 * MIB, enough=False, is_simulated=True
    )
    assert remedies(oom)["less_live"] == Remedy(
        "less_live", 100 * MIB, enough=True, is_simulated=True
    )
    (pin,) = oom.pins
    assert (pin.bytes, pin.count, pin.segments) == (100 * MIB, 20, 10)
    assert (pin.alone_bytes, pin.frames[0].function) == (100 * MIB, "append")


def test_cache_of_another_stream_is_the_cause() -> None:
    made, device = machine(70 * MIB)
    block = device.malloc(64 * MIB, 7)
    assert block is not None
    device.free(block)
    device.malloc(2 * MIB, 7, KEEP)
    fail(device, 50 * MIB)
    oom = only(made)
    assert oom.cause == "other_stream"
    assert oom.cached == (CachedPart("other_stream", 62 * MIB, 62 * MIB),)
    assert remedies(oom)["one_stream"] == Remedy("one_stream", 62 * MIB, True)


def test_cache_of_another_pool_is_the_cause() -> None:
    made, device = machine(70 * MIB)
    device.begin_pool((1, 0))
    block = device.malloc(64 * MIB)
    assert block is not None
    device.free(block)
    device.end_pool()
    fail(device, 50 * MIB)
    oom = only(made)
    assert oom.cause == "other_pool"
    assert oom.cached == (CachedPart("other_pool", 64 * MIB, 64 * MIB),)
    assert remedies(oom)["private_pools"].enough
    assert (oom.pool, oom.pool_assumed) == ((0, 0), False)


def test_cache_could_have_been_emptied_before_a_capture() -> None:
    made, device = machine(100 * MIB)
    block = device.malloc(60 * MIB)
    assert block is not None
    device.free(block)
    device.malloc(12 * MIB, 0, KEEP)  # splits the 60 MiB block
    block = device.malloc(30 * MIB, 7)
    assert block is not None
    device.free(block)
    device.begin_pool((1, 0))
    fail(device, 38 * MIB)
    oom = only(made)
    assert (oom.cause, oom.cached_bytes) == ("other_pool", 78 * MIB)
    # The other 48 MiB are in a split block, so they can't be released.
    assert remedies(oom)["empty_cache"] == Remedy("empty_cache", 30 * MIB, True)
    assert "private_pools" not in remedies(oom)
    assert oom.remedies[0].name == "empty_cache"


def test_small_and_large_pools_are_separate() -> None:
    made, device = machine(20 * MIB)
    device.malloc(5 * MIB)
    fail(device, 100 * KIB)
    oom = only(made)
    assert (oom.kind, oom.needed_bytes, oom.cause) == ("small", 2 * MIB, "other_pool")
    assert oom.cached == (CachedPart("other_kind", 15 * MIB, 15 * MIB),)


def split_limited() -> Machine:
    """Build a free block of 24.5 MiB in an expandable segment that has no entirely free page."""
    limits = {"expandable_segments": True, "max_split_size": 24 * MIB}
    made, device = machine(60 * MIB, **limits)
    device.malloc(15 * MIB, 0, KEEP)
    middle = device.malloc(24 * MIB + 512 * KIB)
    device.malloc(15 * MIB, 0, KEEP)
    assert middle is not None
    device.free(middle)
    fail(device, 20 * MIB)
    return made


def test_split_limit_is_the_cause() -> None:
    oom = only(split_limited())
    assert oom.cause == "split_limit"
    size = 24 * MIB + 512 * KIB
    assert CachedPart("split_limit", size, size) in oom.cached
    assert remedies(oom)["max_split_size"] == Remedy(
        "max_split_size", size, enough=True, is_simulated=True, settings="expandable_segments:True"
    )
    assert "expandable_segments" not in remedies(oom)


def test_pending_frees_are_the_cause() -> None:
    made, device = machine(50 * MIB)
    device.begin_pool((1, 0))
    block = device.malloc(40 * MIB)
    assert block is not None
    device.record_stream(block, 7)
    device.free(block)
    fail(device, 40 * MIB)
    oom = only(made)
    assert oom.cause == "pending_frees"
    assert (oom.pool, oom.cached_bytes, oom.pending_bytes) == ((1, 0), 0, 40 * MIB)
    assert (oom.active_bytes, oom.allocated_bytes) == (40 * MIB, 0)
    assert remedies(oom)["pending_frees"] == Remedy("pending_frees", 40 * MIB, True)


def test_free_that_completes_too_late_is_the_cause() -> None:
    # Before giving up, the allocator waits for all streams. After that, it only asks the driver for
    # memory, so it doesn't use the freed block.
    made, device = machine(20 * MIB)
    first = device.malloc(8 * MIB)
    device.malloc(5 * MIB, 0, KEEP)
    assert first is not None
    device.record_stream(first, 7)
    device.free(first)
    fail(device, 7 * MIB + 512 * KIB)
    oom = only(made)
    assert (oom.cause, oom.pending_bytes) == ("pending_frees", 0)
    assert CachedPart("too_late", 8 * MIB, 8 * MIB) in oom.cached
    assert remedies(oom)["pending_frees"] == Remedy("pending_frees", 8 * MIB, True)


def test_capacity_is_the_cause_if_nothing_is_cached() -> None:
    made, device = machine(64 * MIB)
    device.malloc(60 * MIB, 0, KEEP)
    fail(device, 30 * MIB)
    oom = only(made)
    assert (oom.cause, oom.cached_bytes, oom.cached) == ("capacity", 0, ())
    assert (oom.device_free_bytes, oom.missing_bytes) == (4 * MIB, 26 * MIB)
    assert [one.name for one in oom.remedies] == ["less_live"]
    assert (oom.outside_bytes, oom.outside_known) == (0, False)


@pytest.mark.parametrize("fold", [False, True])
def test_largest_holder_does_not_depend_on_grouping(fold: bool) -> None:
    """Stacks that differ only in plumbing are one call site."""
    made, device = machine(64 * MIB)
    plumbing = ("call", "/lib/python3/site-packages/torch/nn/modules/module.py", 1)
    device.malloc(16 * MIB, 0, KEEP)
    device.malloc(16 * MIB, 0, (plumbing, *KEEP))
    device.malloc(20 * MIB, 0, ASK)
    fail(device, 30 * MIB)
    (found,) = oom_report(mr.open(build.dump(made.dump()[0])), fold=fold).devices
    (oom,) = found.ooms
    assert len(oom.groups) == (2 if fold else 3)
    assert remedies(oom)["less_live"].bytes == 32 * MIB


@pytest.mark.parametrize("more, enough", [(0, True), (2, False)])
def test_reducing_one_group_suffices_if_capacity_is_the_cause(more: int, enough: bool) -> None:
    made, device = machine(64 * MIB)
    device.malloc(60 * MIB, 0, KEEP)
    fail(device, (64 + more) * MIB)
    oom = only(made)
    assert oom.missing_bytes == (60 + more) * MIB
    assert remedies(oom)["less_live"] == Remedy("less_live", 60 * MIB, enough, is_simulated=True)


def crowded() -> Machine:
    made, device = machine(4 * GIB)
    device.malloc(3 * GIB, 0, KEEP)
    fail(device, 2 * GIB)
    return made


def test_other_processes_are_the_cause() -> None:
    assert only(crowded()).cause == "capacity"
    oom = only(crowded(), total_memory=16 * GIB)
    assert oom.cause == "other_processes"
    assert (oom.outside_bytes, oom.outside_known) == (12 * GIB, True)
    assert remedies(oom)["other_processes"].bytes == 12 * GIB - OWN_OVERHEAD
    # The process's own overhead doesn't count as another process.
    assert only(crowded(), total_memory=5 * GIB).cause == "capacity"


def recorded(total_bytes: int) -> Snapshot:
    """Return a snapshot that notes the card's size, like those of memreplay's recorder."""
    made = crowded().dump()[0]
    return {**made, "memreplay": {"cards": [{"total_bytes": total_bytes}]}}


def test_card_size_from_the_recorder_is_used() -> None:
    (device,) = report(recorded(16 * GIB)).devices
    assert (device.total_memory_bytes, device.total_memory_known) == (16 * GIB, True)
    assert only(recorded(16 * GIB)) == only(crowded(), total_memory=16 * GIB)
    # A given size takes precedence. A recorded size that is too small is ignored.
    (device,) = report(recorded(16 * GIB), total_memory=8 * GIB).devices
    assert (device.total_memory_bytes, device.total_memory_known) == (8 * GIB, True)
    (device,) = report(recorded(4 * GIB - 1)).devices
    assert (device.total_memory_bytes, device.total_memory_known) == (4 * GIB, False)


def measured(others: int | None, late_us: int = 0) -> Snapshot:
    """Return a snapshot whose recorder measured what other processes held at the failed request."""
    made = recorded(16 * GIB)
    (event,) = [one for one in made["device_traces"][0] if one["action"] == "oom"]
    card = {
        "device": 0,
        "total_bytes": 16 * GIB,
        "is_part": False,
        "times_us": [event["time_us"] + late_us],
        "free_bytes": [1 * GIB],
        "reserved_bytes": [3 * GIB],
        "other_bytes": [others],
        "processes": [],
        "processes_missing": "",
    }
    return {**made, "memreplay": {**made["memreplay"], "card_memory": [card]}}


def test_measured_memory_of_other_processes_replaces_the_assumption() -> None:
    oom = only(measured(9 * GIB))
    assert oom.cause == "other_processes"
    assert remedies(oom)["other_processes"].bytes == 9 * GIB
    assert oom.other_bytes == 9 * GIB
    text = remedy_text(remedies(oom)["other_processes"], oom)
    assert text == "stop other programs on the card: they hold 9.0 GiB"
    oom = only(measured(500 << 20))
    text = remedy_text(remedies(oom)["other_processes"], oom)
    assert text.endswith("they hold 500.0 MiB, which isn't enough by itself")
    oom = only(measured(0))
    assert oom.cause == "capacity"
    assert "other_processes" not in remedies(oom)
    # If it's unknown, or from another time, the rest of the card may be theirs.
    for made in (measured(None), measured(0, 5_000_000)):
        assert only(made).other_bytes is None
        assert remedies(only(made))["other_processes"].bytes == 12 * GIB - OWN_OVERHEAD
    (use,) = report(measured(9 * GIB)).card_memory
    assert (use.at_oom, use.outside_bytes) == (True, 3 * GIB)
    (use,) = report(measured(9 * GIB, 5_000_000)).card_memory
    assert not use.at_oom


def test_report_advises_to_stop_processes_that_hold_enough() -> None:
    def advised(others: int | None) -> list[str]:
        (device,) = mr.report(mr.open(build.dump(measured(others)))).devices
        return [one.name for one in device.advice]

    assert "oom_other_processes" in advised(9 * GIB)
    assert "oom_other_processes" not in advised(500 << 20)


def test_process_limit_is_the_cause() -> None:
    made, device = machine(64 * MIB)
    device.malloc(60 * MIB, 0, KEEP)
    fail(device, 30 * MIB)
    snapshot = made.dump()[0]
    (event,) = [one for one in snapshot["device_traces"][0] if one["action"] == "oom"]
    event["device_free"] = 8 * GIB
    oom = only(snapshot)
    assert (oom.cause, oom.missing_bytes) == ("process_limit", 0)
    assert remedies(oom)["process_limit"].bytes == 8 * GIB


def test_all_causes_together_suffice() -> None:
    made, device = machine(100 * MIB)
    for stream in (0, 7):
        block = device.malloc(40 * MIB, stream)
        assert block is not None
        device.free(block)
        device.malloc(12 * MIB if stream else 8 * MIB, stream, KEEP)
    fail(device, 50 * MIB)
    oom = only(made)
    # Two streams have 32 and 28 MiB, and the driver has 20 MiB. The report names the largest.
    assert (oom.cause, oom.cached_bytes) == ("fragmentation", 60 * MIB)


# --- incomplete files, and options ----------------------------------------------------------------


def test_failures_are_numbered() -> None:
    made, device = machine(64 * MIB)
    for size in (70, 80, 90):
        fail(device, size * MIB)
    found = report(made, oom=3)
    (one,) = found.devices
    assert [(oom.number, oom.request_bytes) for oom in one.ooms] == [
        (1, 70 * MIB),
        (2, 80 * MIB),
        (3, 90 * MIB),
    ]
    assert (one.total_memory_bytes, one.total_memory_known, found.chosen) == (64 * MIB, False, 3)
    with pytest.raises(
        UsageError, match="has 3 out-of-memory events on one device; there is no number "
    ):
        report(made, oom=4)


@pytest.mark.parametrize(
    "number, most, told",
    [
        (1, 2, [1, 2]),
        (1, 3, [1, 2, 3]),
        (3, 1, [1, 3]),
        (3, 2, [1, 2, 3]),
        (0, 1, [1, 2, 3]),
        (2, 0, [1, 2, 3]),
    ],
)
def test_earlier_failures_are_listed_next_to_the_requested_failure(
    number: int, most: int, told: list[int]
) -> None:
    made, device = machine(64 * MIB)
    for size in (70, 80, 90):
        fail(device, size * MIB)
    (one,) = report(made, oom=number, most=most).devices
    assert [oom.number for oom in one.ooms] == told
    assert one.ooms_total == 3


def test_card_smaller_than_the_usage_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"total_memory is below what device 0 had: 200\.0 MiB"):
        report(scattered(), total_memory=100 * MIB)
    # Without a failed request, too.
    made, device = machine(200 * MIB)
    device.malloc(60 * MIB, 0, KEEP)
    assert report(made, total_memory=60 * MIB).devices
    words = r"device 0 had: 60\.0 MiB were requested at the peak; memreplay simulate shows"
    with pytest.raises(UsageError, match=words):
        report(made, total_memory=60 * MIB - 1)


def test_driver_numbers_may_be_missing() -> None:
    snapshot = scattered().dump()[0]
    for event in snapshot["device_traces"][0]:
        event.pop("device_free", None)
    oom = only(snapshot)
    assert (oom.device_free_bytes, oom.cause, oom.outside_bytes) == (None, "fragmentation", 0)
    (device,) = report(snapshot).devices
    assert device.total_memory_bytes is None


def test_driver_free_bytes_may_be_stored_as_an_address() -> None:
    made, device = machine(64 * MIB)
    device.malloc(60 * MIB)
    fail(device, 30 * MIB)
    snapshot = made.dump()[0]
    for event in snapshot["device_traces"][0]:
        if "device_free" in event:
            event["addr"] = event.pop("device_free")
    assert only(snapshot).device_free_bytes == 4 * MIB


def test_snapshot_without_failures_has_none() -> None:
    made, device = machine(64 * MIB)
    device.malloc(60 * MIB)
    (one,) = report(made).devices
    assert (one.ooms, one.total_memory_bytes) == ((), None)
    assert report(build.SnapshotBuilder().build()).devices == ()


@pytest.mark.parametrize("seed", range(10))
def test_memory_at_the_end_is_reported_without_a_failure(seed: int) -> None:
    made = record(seed, steps=80, late=40 * (seed % 2))
    truth = made.truths[0]
    ends = {
        name: (truth.series(name) or [truth.start_of(name)])[-1] for name in ("active", "reserved")
    }
    (device,) = report(made.snapshot, top=2).devices
    assert device.ooms == ()
    if not ends["active"]:
        assert device.end is None
        return
    end = device.end
    assert end is not None
    assert end.event_index == len(truth.recorded) - 1
    assert end.peak_bytes == max([truth.start_of("active"), *truth.series("active")])
    if device.exactness == "exact":
        assert (end.active_bytes, end.reserved_bytes) == (ends["active"], ends["reserved"])
        assert end.cached_bytes == ends["reserved"] - ends["active"]
    assert sum(group.bytes for group in end.groups) + end.rest_bytes == end.active_bytes
    assert sum(group.count for group in end.groups) + end.rest_count == end.live_count


def test_end_is_reported_only_without_a_failure() -> None:
    (device,) = report(scattered()).devices
    assert device.end is None
    made, one = machine(64 * MIB)
    one.malloc(MIB)
    one.malloc(2 * MIB)
    data = build.dump(made.dump()[0])
    (device,) = oom_report(mr.open(data)).devices
    assert device.end is not None
    # The file's final state is after the range, so it isn't used.
    (device,) = oom_report(mr.open(data, stop=2)).devices
    assert device.end is None
    (device,) = oom_report(mr.open(data[:-40], salvage=True)).devices
    assert device.end is None


def test_free_memory_of_the_driver_is_never_negative() -> None:
    snapshot = scattered().dump()[0]
    for event in snapshot["device_traces"][0]:
        if "device_free" in event:
            event["device_free"] = -5
    assert only(snapshot).device_free_bytes is None


def test_failure_in_a_range_is_the_same() -> None:
    made = scattered()
    fail(made.devices[0], 45 * MIB)
    data = build.dump(made.dump()[0])
    (whole,), (part,) = (oom_report(mr.open(data, start=at)).devices for at in (None, 91))
    assert len(whole.ooms) == 2
    (oom,) = part.ooms
    second = replace(whole.ooms[1], number=1)
    # Memory from before the range stays at its recorded addresses, because a simulation can't know
    # other ones.
    by_bytes = {one.name: replace(one, enough=True, is_simulated=False) for one in second.remedies}
    found = {one.name: one for one in oom.remedies}
    assert found["expandable_segments"] == by_bytes["expandable_segments"]
    assert found["less_live"].enough
    either: dict[str, Any] = {"remedies": (), "more_bytes": None, "to_end_bytes": None}
    assert replace(oom, **either) == replace(second, **either)


def test_default_pool_is_assumed_if_the_event_has_none() -> None:
    made, device = machine(70 * MIB)
    device.begin_pool((1, 0))
    device.malloc(20 * MIB)
    device.end_pool()
    fail(device, 60 * MIB)
    snapshot, _ = made.dump(event_pools=False)
    (oom,) = report(snapshot).devices[0].ooms
    assert (oom.pool, oom.pool_assumed) == ((0, 0), True)


@pytest.mark.parametrize("by", ["stack", "line", "file", "function", "pool", "stream"])
def test_live_memory_is_grouped(by: str) -> None:
    oom = only(scattered(), by=by, top=1)
    assert len(oom.groups) == 1
    assert bool(oom.parts) == (by in ("pool", "stream"))
    assert oom.asked_by.frames[0].function == "attention"


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_add_up(seed: int) -> None:
    settings = ("crowded", "max split, crowded", "expandable, crowded")[seed % 3]
    made = record(seed, settings=settings, steps=200)
    snap = mr.open(build.dump(made.snapshot))
    (truth,) = made.truths
    (device,) = oom_report(snap, top=0).devices
    events = [i for i, one in enumerate(truth.recorded) if one.event["action"] == "oom"]
    assert [one.event_index for one in device.ooms] == events
    for one in device.ooms:
        assert_adds_up(one)
        assert one.reserved_bytes == truth.series("reserved")[one.event_index]
        assert one.active_bytes == truth.series("active")[one.event_index]
        assert one.allocated_bytes == truth.series("allocated")[one.event_index]
        assert one.device_free_bytes == made.settings.capacity - one.reserved_bytes
        if "too_late" in [part.name for part in one.cached]:
            assert one.cause == "pending_frees"
            before = truth.recorded[: one.event_index][-12:]
            assert "free_completed" in [known.event["action"] for known in before]
        assert device.total_memory_bytes == made.settings.capacity


@pytest.mark.parametrize("by", ["stack", "line", "file", "stack,phase"])
def test_memory_without_a_stack_is_no_holder(by: str) -> None:
    made, device = machine(100 * MIB)
    device.malloc(60 * MIB)
    fail(device, 50 * MIB)
    oom = only(made, by=by)
    assert remedies(oom)["less_live"] == Remedy("less_live", 0, enough=False)
    made, device = machine(100 * MIB)
    device.malloc(60 * MIB)
    device.malloc(20 * MIB, 0, KEEP)
    fail(device, 30 * MIB)
    oom = only(made, by=by)
    assert remedies(oom)["less_live"].bytes == 20 * MIB
