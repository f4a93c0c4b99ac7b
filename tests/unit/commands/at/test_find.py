"""at: the live set after any event matches a scan of all allocations, and the series."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.commands.at.find import at_report
from memreplay.commands.at.result import DeviceAt
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES, By, MeasureName, When
from tests import build, oracle, oracle_measures
from tests.allocator_strategies import record
from tests.build import START_US, SnapshotBuilder
from tests.examples import examples
from tests.strategies import traces


def one(builder: SnapshotBuilder, when: When, **options: object) -> DeviceAt:
    snap = mr.open(build.dump(builder.build()))
    (found,) = at_report(snap, [when], **options).devices
    return found


def listed(found: DeviceAt) -> Counter[tuple[int, int, int | None, int | None]]:
    return Counter(
        (a.address, a.bytes, a.alloc_event, a.free_event) for a in found.allocations or ()
    )


def spelled(index: int | None) -> int | None:
    return None if index == -1 else index


def brute(snapshot: build.Snapshot, device: int, measure: str) -> list[tuple[int, int, int, int]]:
    """Return (address, bytes, first event, last event) of every allocation that counts, in plain
    Python.
    """
    if measure == "requested":
        lives = oracle.replay(snapshot, device).lifetimes
        rows = [(one.addr, one.size, one.alloc_index, one.free_index) for one in lives]
    else:
        held = oracle_measures.holdings_of(snapshot, device)
        rows = [(one.addr, one.size, one.alloc_index, one.end_index) for one in held]
    return [(a, n, i, 2**40 if end is None else end) for a, n, i, end in rows]


@settings(max_examples=examples(120), deadline=None)
@given(traces(), st.sampled_from(["requested", "held"]))
def test_live_sets_of_any_trace_match_brute_force(
    snapshot: build.Snapshot, measure: MeasureName
) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        rows = brute(snapshot, device, measure)
        events = snap.replay(device).events
        moments = [When("event", event) for event in range(-1, events)]
        found = at_report(snap, moments, measure=measure, top=0, list=True)
        mine = [one for one in found.devices if one.device == device]
        assert len(mine) == len(moments)
        for at in mine:
            live = [row for row in rows if row[2] <= at.event_index < row[3]]
            assert (at.live_bytes, at.live_count) == (sum(row[1] for row in live), len(live))
            assert sum(group.bytes for group in at.groups) == at.live_bytes
            assert sum(group.count for group in at.groups) == at.live_count
            assert listed(at) == Counter(
                (addr, size, spelled(begin), None if end == 2**40 else end)
                for addr, size, begin, end in live
            )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("measure", MEASURES)
def test_total_matches_the_series_at_every_event(seed: int, measure: MeasureName) -> None:
    made = record(seed, steps=700, late=seed % 2 * 100)
    truth = made.truths[0]
    snap = mr.open(build.dump(made.snapshot))
    events = snap.replay().events
    series = [truth.start_of(measure), *truth.series(measure)]
    usage = snap.replay().measure(measure)
    dice = random.Random(seed)
    moments = [When("event", dice.randint(-1, events - 1)) for _ in range(60)]
    ways: tuple[By, ...] = ("pool", "stream")
    if measure != "reserved":
        ways += ("stack", "file")
    for by in ways:
        for at in at_report(snap, moments, measure=measure, by=by, top=2).devices:
            assert at.live_bytes == usage.bytes_at(at.event_index)
            assert sum(group.bytes for group in at.groups) + at.rest_bytes == at.live_bytes
            assert sum(group.count for group in at.groups) + at.rest_count == at.live_count
            if at.exactness == "exact":
                assert at.live_bytes == series[at.event_index + 1]


def test_time_selects_the_events_up_to_it() -> None:
    made = record(7, steps=300)
    snap = mr.open(build.dump(made.snapshot))
    times = [event["time_us"] for event in made.snapshot["device_traces"][0]]
    dice = random.Random(1)
    asked = [dice.randint(times[0] - 2, times[-1] + 2) for _ in range(200)]
    for when, at in zip(
        asked, at_report(snap, [When("time", t) for t in asked]).devices, strict=True
    ):
        assert at.event_index == sum(time <= when for time in times) - 1


HERE = [("alloc_here", "model.py", 3)]
THERE = [("free_there", "train.py", 9)]


def rich() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    builder.alloc(512, 100, frames=HERE, stream=7, pool_id=(0, 1), time_us=START_US)
    builder.alloc(4096, 900, frames=HERE, time_us=START_US + 50)
    builder.free_completed(512, 100, frames=THERE, stream=7, pool_id=(0, 1), time_us=START_US + 90)
    builder.segment(1 << 30, 2 << 20, blocks=[builder.block(1 << 30, 1024, 1000)])
    return builder


def test_row_describes_an_allocation() -> None:
    found = one(rich(), When("event", 1), list=True)
    assert (found.live_bytes, found.live_count, found.peak_bytes) == (2000, 3, 2000)
    base, large, small = found.allocations or ()
    assert (base.address, base.bytes, base.alloc_event, base.age_us) == (1 << 30, 1000, None, None)
    assert (base.stream, base.pool, base.free_event) == (0, (0, 0), None)
    assert (large.alloc_event, large.age_us, large.age_events, large.free_event) == (1, 0, 0, None)
    assert (small.alloc_event, small.age_us, small.age_events) == (0, 50, 1)
    assert (small.stream, small.pool, small.free_event) == (7, (0, 1), 2)
    assert small.free_us == START_US + 90
    assert small.freed_at is not None
    assert (small.freed_at.function, small.label) == ("free_there", "alloc_here model.py:3")


def test_backward_clock_never_gives_a_negative_age() -> None:
    builder = SnapshotBuilder().alloc(512, 300, time_us=START_US)
    builder.alloc(1024, 200, time_us=START_US - 40).alloc(2048, 100, time_us=START_US + 5)
    found = one(builder, When("event", 1), list=True)
    assert [row.age_us for row in found.allocations or ()] == [0, 0]
    found = one(builder, When("event", 2), list=True)
    assert [row.age_us for row in found.allocations or ()] == [5, 5, 0]
    assert [row.alloc_us for row in found.allocations or ()] == [
        START_US,
        START_US - 40,
        START_US + 5,
    ]


def test_allocation_without_a_time_takes_the_latest_earlier_time() -> None:
    builder = SnapshotBuilder().alloc(512, 300).drop("time_us")
    builder.alloc(1024, 200, time_us=START_US).alloc(2048, 100).drop("time_us")
    builder.alloc(4096, 50, time_us=START_US + 7)
    found = one(builder, When("end"), list=True)
    assert [row.age_us for row in found.allocations or ()] == [None, 7, 7, 0]
    assert [row.alloc_us for row in found.allocations or ()] == [None, START_US, None, START_US + 7]


def test_elapsed_time_in_a_range_starts_at_the_first_event_of_the_trace() -> None:
    builder = SnapshotBuilder()
    for i in range(6):
        builder.alloc((i + 1) << 9, 100, time_us=START_US + 10 * i)
    snap = mr.open(build.dump(builder.build()), start=2)
    (found,) = at_report(snap, [When("elapsed", 35)]).devices
    assert (found.event_index, found.start_us) == (3, START_US)


def test_free_without_its_own_stack_shows_no_call_site() -> None:
    for frames in ([], HERE):
        builder = SnapshotBuilder().alloc(512, 100, frames=HERE)
        builder.free_completed(512, 100, frames=frames)
        (row,) = one(builder, When("event", 0), list=True).allocations or ()
        assert (row.free_event, row.freed_at) == (1, None)


def test_top_limits_the_list_too() -> None:
    found = one(rich(), When("peak", 1), list=True, top=1)
    assert [row.bytes for row in found.allocations or ()] == [1000]
    assert not one(rich(), When("peak", 1)).allocations


def test_devices_without_the_moment_are_reported() -> None:
    builder = SnapshotBuilder(devices=2).alloc(512, 100).alloc(1024, 50).alloc(512, 9, device=1)
    snap = mr.open(build.dump(builder.build()))
    report = at_report(snap, [When("event", 1), When("end")])
    assert [(at.device, at.event_index) for at in report.devices] == [(0, 1), (0, 1), (1, 0)]
    assert report.missing == ("device 1 has no event 1; its events: 0 to 0",)
    with pytest.raises(UsageError, match="device 0 has no event 9"):
        at_report(snap, [When("event", 9)])


def test_reserved_memory_has_no_list() -> None:
    with pytest.raises(UsageError, match="no allocations to list"):
        one(rich(), When("end"), measure="reserved", list=True)
    found = one(rich(), When("end"), measure="reserved")
    assert (found.live_bytes, found.live_count) == (2 << 20, 0)


def test_range_keeps_event_numbers() -> None:
    made = record(3, steps=400)
    data = build.dump(made.snapshot)
    whole = mr.open(data)
    part = mr.open(data, start=100, stop=200)
    for event in (99, 100, 150, 199):
        (a,) = at_report(whole, [When("event", event)], top=0, list=True).devices
        (b,) = at_report(part, [When("event", event)], top=0, list=True).devices
        assert (a.live_bytes, a.live_count) == (b.live_bytes, b.live_count)
        assert Counter(
            (
                row.address,
                row.bytes,
                row.alloc_event if (row.alloc_event or 0) >= 100 else None,
                row.free_event if row.free_event is not None and row.free_event < 200 else None,
            )
            for row in a.allocations or ()
        ) == listed(b)
    with pytest.raises(UsageError, match="no event 200"):
        at_report(part, [When("event", 200)])


def test_each_stack_is_formatted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = SnapshotBuilder()
    for i in range(60):
        builder.alloc(0x1000 * (i + 1), 512 + i, frames=[("f", "a.py", i % 3)])
    spelled: list[int] = []
    stack_group = Grouper.stack_group

    def counted(self: Grouper, usage: Any, name: int, *rest: Any) -> Any:
        spelled.append(name)
        return stack_group(self, usage, name, *rest)

    monkeypatch.setattr(Grouper, "stack_group", counted)
    snap = mr.open(build.dump(builder.finish_segments().build()))
    (one,) = at_report(snap, [When("end")], list=True, top=0).devices
    assert len(one.allocations or ()) == 60
    assert len(spelled) == len(set(spelled)) == 3
    stacks = [stack.frames[0].line for stack in one.stacks or ()]
    assert sorted(stacks) == [0, 1, 2]
    assert [stacks[row.stack] for row in one.allocations or ()] == [
        i % 3 for i in reversed(range(60))
    ]
    for row in one.allocations or ():
        assert row.alloc_event is not None
        assert (row.alloc_us, row.age_us) == (
            snap.replay().time_us(row.alloc_event),
            snap.replay().clock_us(59) - snap.replay().clock_us(row.alloc_event),  # type: ignore[operator]
        )
