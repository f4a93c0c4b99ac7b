"""For any trace, timeline's buckets and layers match plain Python."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways.base import BEFORE_RECORDING, NO_EVENTS, NO_STACK
from memreplay.commands.timeline.find import timeline_report
from memreplay.commands.timeline.result import Axis, Series
from memreplay.engine.replay import _measures, _timeline
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import MEASURES, Buckets, By, MeasureName
from memreplay.snapshot.replay import Usage
from tests import build
from tests.allocator_strategies import Recording, record, recordings
from tests.examples import examples
from tests.strategies import traces
from tests.unit.engine.replay.measured import A, column, replay

HUGE = 2**62


@dataclass
class Bucket:
    """A bucket, computed by brute force."""

    first: int
    events: int
    low: int
    high: int
    high_at: int


def by_event(start: int, values: list[int], parts: int) -> list[Bucket]:
    """Return buckets with the same number of events each; the first one includes the start."""
    parts = max(min(parts, len(values)), 1)
    found = []
    for b in range(parts):
        mine = range(len(values) * b // parts, len(values) * (b + 1) // parts)
        held = {event: values[event] for event in mine}
        if b == 0:
            held = {-1: start} | held
        high = max(held.values())
        first = next(event for event in held if held[event] == high)
        begins = mine[0] if mine else -1
        found.append(Bucket(begins, len(mine), min(held.values()), high, first))
    return found


def by_time(start: int, values: list[int], times: list[int | None], parts: int) -> list[Bucket]:
    """Return buckets of equal duration, each with the state at its start."""
    clock: list[int | None] = []
    for time in times:
        known = [t for t in (time, clock[-1] if clock else None) if t is not None]
        clock.append(max(known, default=None))
    origin = next(t for t in clock if t is not None)
    last = clock[-1]
    assert last is not None
    whole = last - origin + 1
    parts = min(parts, whole)
    found = []
    for b in range(parts):
        begin, end = origin + whole * b // parts, origin + whole * (b + 1) // parts
        at = [origin if t is None else t for t in clock]
        mine = [event for event, time in enumerate(at) if begin <= time < end]
        before = sum(time < begin for time in at) - 1
        held = {before: start if before < 0 else values[before]}
        held |= {event: values[event] for event in mine}
        high = max(held.values())
        first = next(event for event in held if held[event] == high)
        begins = mine[0] if mine else before
        found.append(Bucket(begins, len(mine), min(held.values()), high, first))
    return found


def rows(found: Buckets) -> list[Bucket]:
    return [
        Bucket(*row)
        for row in zip(
            found.event_index,
            found.events,
            found.min_bytes,
            found.max_bytes,
            found.max_event,
            strict=True,
        )
    ]


VALUES = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**40)), max_size=40)
TIMES = st.lists(
    st.one_of(st.none(), st.integers(0, 30), st.integers(-HUGE, HUGE)), min_size=40, max_size=40
)


@given(VALUES, TIMES, st.integers(-HUGE, HUGE), st.integers(1, 60))
def test_series_match_brute_force(
    values: list[int], times: list[int | None], start: int, parts: int
) -> None:
    builder = build.SnapshotBuilder()
    for value, time in zip(values, times, strict=False):
        builder.alloc(A, value, time_us=0 if time is None else time)
        if time is None:
            builder.drop("time_us")
    made = replay(builder)
    usage = _timeline.requested_measure(made).usage()
    assert column(usage) == values
    found = [column(one) for one in _measures.buckets(usage, start, parts)]
    want = by_event(start, values, parts)
    assert [Bucket(*row) for row in zip(*found, strict=True)] == want
    assert max(found[3]) == max([start, *values])
    assert min(found[2]) == min([start, *values])

    known = [time for time in times[: len(values)] if time is not None]
    clock = made.clock()
    if not known or clock is None:
        return
    whole = max(known) - known[0] + 1
    found = [column(one) for one in _measures.buckets(usage, start, parts, clock, known[0], whole)]
    assert [Bucket(*row) for row in zip(*found, strict=True)] == by_time(
        start, values, times[: len(values)], parts
    )
    assert sum(found[1]) == len(values)
    assert max(found[3]) == max([start, *values])
    assert min(found[2]) == min([start, *values])


@given(st.lists(st.one_of(st.none(), st.integers(-20, 20)), min_size=1, max_size=12), st.booleans())
def test_clock_is_the_latest_time_so_far(times: list[int | None], in_order: bool) -> None:
    if in_order:  # as in real files; their times are used unchanged
        times.sort(key=lambda time: -99 if time is None else time)
    builder = build.SnapshotBuilder()
    for i, time in enumerate(times):
        builder.alloc(A + 512 * i, 9, time_us=0 if time is None else time)
        if time is None:
            builder.drop("time_us")
    made = replay(builder)
    clock = made.clock()
    if clock is None:  # all events have the same time
        assert len(set(times)) == 1
        return
    absent = -(2**63)
    known = [absent if time is None else time for time in times]
    assert column(clock) == [max(known[: i + 1]) for i in range(len(known))]


def check(
    snapshot: build.Snapshot, measure: MeasureName, by: By, points: int, top: int, x: Axis
) -> None:
    snap = mr.open(build.dump(snapshot))
    replays = [snap.replay(device) for device in snap.devices]
    if x == "time" and not all(replay.has_times for replay in replays if replay.events):
        with pytest.raises(UsageError, match="have no times"):
            timeline_report(snap, x=x)
        return
    shown = any(replay.shows_reserved for replay in replays)
    if measure == "reserved" and replays and not shown:
        with pytest.raises(NothingToTellError, match="reserved memory isn't known"):
            timeline_report(snap, measure=[measure])
        return
    report = timeline_report(snap, measure=[measure], by=by, points=points, top=top, x=x)
    for one in report.devices:
        usage = snap.replay(one.device).measure(measure)
        values = memoryview(usage.column).tolist()
        times = [snap.replay(one.device).time_us(i) for i in range(len(values))]
        timed = x == "time" and values
        want = (
            by_time(usage.start_bytes, values, times, points)
            if timed
            else by_event(usage.start_bytes, values, points)
        )
        assert rows(one.buckets) == want
        assert max(one.buckets.max_bytes) == one.peak_bytes == usage.peak.bytes
        assert one.peak_event in one.buckets.max_event
        assert min(one.buckets.min_bytes) == one.lowest_bytes == usage.minimum.bytes
        stacked = totals(one)
        assert stacked == one.buckets.max_bytes
        total = one.groups_total or 0
        assert len(one.layers) == min(top or total, total)
        check_bests(snap, usage, by, one)
        peak = one.buckets.max_event.index(one.peak_event)
        assert [y.bytes[peak] for y in one.layers] == [y.group.bytes for y in one.layers]
        if by == "stack":
            sample = random.Random(points).randrange(len(one.buckets))
            live = held_by_stack(snap, usage, one.buckets.max_event[sample])
            for layer in one.layers:
                key = layer.group.frames or layer.group.label
                assert layer.bytes[sample] == live.get(key, 0)


def check_bests(snap: mr.Snapshot, usage: Usage, by: By, one: Series) -> None:
    """Check that the layers are the groups with the most bytes, each measured at its own first
    peak.
    """
    events = len(memoryview(usage.column))
    samples = range(-1, events)
    if usage.measure == "reserved":
        parts = usage.parts(by, -1)
        rows = usage.reserved_layers(by, usage.part_classes(by, parts), samples)
    else:
        keys = Grouper(snap, by).keys(usage)
        keys.find_all()
        rows = usage.layers(keys, range(len(memoryview(keys.names()))), samples)
    assert not any(rows[-1])
    found = [(max(row), row.index(max(row)) - 1) for row in rows[:-1] if max(row) > 0]
    found.sort(key=lambda best: (-best[0], best[1]))
    assert one.groups_total == len(found)
    layers = [(layer.peak_bytes, layer.peak_event) for layer in one.layers]
    assert layers == found[: len(layers)]


def totals(one: Series) -> list[int]:
    layers = (layer.bytes for layer in one.layers)
    return [sum(held) for held in zip(*layers, one.rest, strict=True)]


def held_by_stack(snap: mr.Snapshot, usage: Usage, event: int) -> Counter[object]:
    """Return the live bytes after an event by stack, or by label for allocations without a
    stack.
    """
    live = usage.live_at(event=event)
    found: Counter[object] = Counter()
    for stack, size, begin in zip(
        live.stack.tolist(), live.size.tolist(), live.alloc_event.tolist(), strict=True
    ):
        if stack:
            found[tuple(map(snap.frame, snap.native.stack(stack)))] += size
        elif begin >= 0:
            found[NO_STACK] += size
        else:
            found[BEFORE_RECORDING if snap.has_events else NO_EVENTS] += size
    return found


WAYS: tuple[By, ...] = (
    "stack",
    "line",
    "file",
    "function",
    "pool",
    "stream",
    "module",
    "size",
    "category",
    "annotation,file",
    "stream,size",
    "pool,category",
)


@settings(max_examples=examples(150))
@given(
    traces(),
    st.sampled_from(MEASURES),
    st.sampled_from(WAYS),
    st.integers(1, 40),
    st.integers(0, 4),
    st.sampled_from(["event", "time"]),
)
def test_layers_add_up_for_any_trace(
    snapshot: build.Snapshot, measure: MeasureName, by: By, points: int, top: int, x: Axis
) -> None:
    if measure == "reserved":
        by = "pool" if WAYS.index(by) % 2 else "stream"
    check(snapshot, measure, by, points, top, x)


@settings(max_examples=examples(60))
@given(
    recordings(max_steps=120),
    st.sampled_from(MEASURES),
    st.sampled_from(WAYS),
    st.integers(1, 60),
    st.sampled_from(["event", "time"]),
)
def test_layers_add_up_for_simulated_programs(
    made: Recording, measure: MeasureName, by: By, points: int, x: Axis
) -> None:
    if measure == "reserved":
        by = "pool" if WAYS.index(by) % 2 else "stream"
    check(made.snapshot, measure, by, points, 2, x)


@pytest.mark.parametrize("by", ["pool", "stream"])
def test_layers_of_one_pool_add_up(by: By) -> None:
    made = record(3, steps=400)
    snap = mr.open(build.dump(made.snapshot))
    for measure in MEASURES:
        (one,) = timeline_report(snap, measure=[measure], by=by, pool=(0, 0), points=50).devices
        stacked = totals(one)
        assert stacked == one.buckets.max_bytes
