"""moments: the event that a peak, a time or an annotation selects, and moments that don't exist."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import leaky
import memreplay as mr
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.moments.moments import highest_within, resolve
from memreplay.errors import UsageError
from memreplay.snapshot.model import Edge, MeasureName, When
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import START_US, SnapshotBuilder


def at(builder: SnapshotBuilder, when: When) -> int:
    snap = mr.open(build.dump(builder.build()))
    return resolve(snap, snap.replay().measure(), when)


def waves() -> SnapshotBuilder:
    """Build an annotated trace, 10 us per event, with two peaks: 900 after event 0 and 700 after
    event 2.
    """
    builder = SnapshotBuilder()
    builder.alloc(512, 900, time_us=START_US)
    builder.free_completed(512, 900, time_us=START_US + 10)
    builder.alloc(1024, 700, time_us=START_US + 20)
    builder.free_completed(1024, 700, time_us=START_US + 30)
    for name, start, end in (("step", 5, 15), ("step", 15, 35), ("step#9", 0, 1)):
        builder.annotation(name, "START", START_US + start)
        builder.annotation(name, "END", START_US + end)
    builder.annotation("back", "START", START_US + 18).annotation("back", "END", START_US + 2)
    return builder.annotation("open", "START", START_US + 12)


@pytest.mark.parametrize(
    "when, event",
    [
        (When("start"), -1),
        (When("end"), 3),
        (When("event", 2), 2),
        (When("event", -1), -1),
        (When("elapsed", 0), 0),
        (When("elapsed", 29), 2),
        (When("elapsed", 900), 3),
        (When("time", START_US + 10), 1),
        (When("time", START_US - 5), -1),
        (When("peak", 1), 0),
        (When("peak", 2), 2),
        (When("annotation", name="step"), 0),
        (When("annotation", name="step#1"), 0),
        (When("annotation", name="step#2"), 1),
        (When("annotation", name="step#-1"), 1),
        (When("annotation", name="step#2", edge="end"), 3),
        (When("annotation", name="step#2", edge="peak"), 2),
        (When("annotation", name="step#1", edge="peak"), 0),  # the state at the start
        (
            When("annotation", name="step#9", edge="end"),
            0,
        ),  # an annotation named step#9, not the ninth step
        (When("annotation", name="open", edge="peak"), 2),
        (When("annotation", name="back", edge="peak"), 1),  # its END is earlier than its START
        (When("annotation", name="back", edge="end"), 1),
    ],
)
def test_moment_selects_an_event(when: When, event: int) -> None:
    assert at(waves(), when) == event


@pytest.mark.parametrize(
    "when, words",
    [
        (When("event", 4), "no event 4; its events: 0 to 3"),
        (When("event", -2), "no event -2"),
        (When("peak", 0), "peaks are numbered from 1, the highest; there is no peak"),
        (When("peak", 3), "2 separate peaks; there is no peak 3"),
        (
            When("annotation", name="stop"),
            "no annotation 'stop'; known: step#9, step, open, back",
        ),
        (When("annotation", name="stop#1"), "no annotation 'stop#1'"),
        (When("annotation", name="step#x"), "no annotation 'step#x'"),
        (When("annotation", name="step#--1"), "no annotation 'step#--1'"),
        (When("annotation", name="step#"), "no annotation 'step#'"),
        (When("annotation", name="step#" + 5000 * "9"), "no annotation 'step#999"),
        (When("annotation", name="step#3"), "'step' occurs 2 times"),
        (When("annotation", name="step#0"), "there is no #0"),
        (When("annotation", name="open#2"), "'open' occurs once"),
        (When("annotation", name="open", edge="end"), "doesn't end in this recording"),
    ],
)
def test_missing_moment_is_an_error(when: When, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        at(waves(), when)


def test_error_says_that_annotations_or_times_are_missing() -> None:
    words = r"^'a' isn't a moment \(.*step:N, annotation\): this snapshot has no annotations"
    with pytest.raises(UsageError, match=words):
        at(SnapshotBuilder().alloc(512, 1), When("annotation", name="a"))
    timeless = SnapshotBuilder(times=False).alloc(512, 1).annotation("a", "START", START_US)
    for when in (When("elapsed", 5), When("time", 5), When("annotation", name="a")):
        with pytest.raises(UsageError, match="no times"):
            at(timeless, when)
    elsewhere = SnapshotBuilder().alloc(512, 1).annotation("a", "START", START_US, device=3)
    with pytest.raises(UsageError, match="device 0 has no annotations"):
        at(elsewhere, When("annotation", name="a"))


def test_long_names_are_cut_in_errors() -> None:
    builder = SnapshotBuilder().alloc(512, 1).annotation("n" * 5000, "START", START_US)
    with pytest.raises(UsageError) as error:
        at(builder, When("annotation", name="a"))
    assert len(str(error.value)) < 200


def ranged(start: int | None, stop: int | None, when: When) -> int:
    """Build ten events 10 us apart, and read a range of them."""
    builder = SnapshotBuilder()
    for i in range(10):
        builder.alloc((i + 1) << 9, 100, time_us=START_US + 10 * i)
    for name, begin, end in (("in", 45, 55), ("early", 5, 45), ("late", 45, 85), ("past", 85, 95)):
        builder.annotation(name, "START", START_US + begin)
        builder.annotation(name, "END", START_US + end)
    snap = mr.open(build.dump(builder.build()), start=start, stop=stop)
    return resolve(snap, snap.replay().measure(), when)


@pytest.mark.parametrize(
    "when, event",
    [
        (When("elapsed", 45), 4),  # counted from the first event of the trace, as for --from
        (When("time", START_US + 45), 4),
        (When("annotation", name="in"), 4),
        (When("annotation", name="in", edge="end"), 5),
        (When("annotation", name="in", edge="peak"), 5),
        (When("annotation", name="early", edge="end"), 4),
        (When("annotation", name="late"), 4),
        (When("start"), 2),
        (When("end"), 6),
    ],
)
def test_moments_are_found_within_a_range(when: When, event: int) -> None:
    assert ranged(3, 7, when) == event


@pytest.mark.parametrize(
    "when, words",
    [
        (When("elapsed", 25), "before the events that were read, 3 to 6"),
        (When("elapsed", 75), ": that's after the last of the events that were read, 3 to 6"),
        (When("time", START_US + 75), ": that's after the last of"),
        (When("annotation", name="early"), "before the events"),
        (When("annotation", name="early", edge="peak"), "before the events"),
        (When("annotation", name="late", edge="end"), ": that's after the last of"),
        (When("annotation", name="late", edge="peak"), ": that's after the last of"),
        (When("annotation", name="past"), ": that's after the last of"),
    ],
)
def test_moment_outside_the_range_is_an_error(when: When, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ranged(3, 7, when)


def test_open_range_includes_later_moments() -> None:
    assert ranged(3, None, When("elapsed", 900)) == 9
    assert ranged(3, None, When("annotation", name="past")) == 8
    assert ranged(None, 7, When("elapsed", 0)) == 0
    assert ranged(None, 7, When("time", START_US - 5)) == -1


@pytest.mark.parametrize(
    "when", [When("elapsed", 5), When("time", START_US), When("annotation", name="in")]
)
def test_empty_range_has_no_times(when: When) -> None:
    with pytest.raises(UsageError, match="device 0 has no events"):
        ranged(3, 3, when)


def test_elapsed_time_starts_at_the_first_known_time() -> None:
    builder = SnapshotBuilder().alloc(512, 1).drop("time_us")
    builder.alloc(1024, 1, time_us=START_US).alloc(2048, 1, time_us=START_US + 10)
    assert at(builder, When("elapsed", 5)) == 1
    assert at(builder, When("elapsed", 10)) == 2


DAY_US = 86_400_000_000
MIDNIGHT_US = START_US - START_US % DAY_US


@pytest.mark.parametrize(
    "first, last, asked, event",
    [
        (DAY_US // 2, DAY_US // 2 + 100, DAY_US // 2 + 50, 0),
        (DAY_US // 2, DAY_US // 2 + 100, DAY_US // 2 + 100, 1),
        (DAY_US // 2, DAY_US // 2 + 100, DAY_US // 2 + 900_000, 1),  # just after all events
        (DAY_US // 2, DAY_US // 2 + 100, DAY_US // 2 - 900_000, -1),  # just before all events
        (DAY_US - 50, DAY_US + 50, DAY_US - 20, 0),
        (DAY_US - 50, DAY_US + 50, 20, 0),  # past midnight
        (DAY_US - 50, DAY_US + 50, 50, 1),
        (DAY_US - 50, DAY_US + 50, DAY_US - 60, -1),
    ],
)
def test_time_of_day_selects_an_event(first: int, last: int, asked: int, event: int) -> None:
    builder = SnapshotBuilder().alloc(512, 1, time_us=MIDNIGHT_US + first)
    builder.alloc(1024, 1, time_us=MIDNIGHT_US + last)
    assert at(builder, When("time_of_day", asked)) == event


@pytest.mark.parametrize(
    "when, words",
    [
        (When("elapsed", 500_000_000), "500.000 s after the first event.* from 0s to 4.700s"),
        (When("elapsed", 4_800_000), "4.800 s after the first event"),
        (When("time", START_US + 10_000_000), "10.000 s after the first event"),
        (When("time", START_US - 5_000_000), "5.000 s before the first event"),
        (When("time", 0), "s before the first event"),
        (When("elapsed", 2**62), "after the first event"),
    ],
)
def test_time_outside_the_recording_is_an_error(when: When, words: str) -> None:
    builder = SnapshotBuilder().alloc(512, 1, time_us=START_US)
    builder.alloc(1024, 1, time_us=START_US + 4_700_000)
    with pytest.raises(UsageError, match=words):
        at(builder, when)


def test_times_are_accepted_up_to_the_last_event_of_any_device() -> None:
    """An idle device keeps its state while others go on. Printed times are rounded."""
    builder = SnapshotBuilder(2).alloc(512, 1, time_us=START_US)
    builder.alloc(1024, 1, time_us=START_US + 1000)
    assert at(builder, When("elapsed", 1900)) == 1
    with pytest.raises(UsageError, match="after the first event"):
        at(builder, When("elapsed", 5_000_000))
    builder.alloc(1024, 1, 1, time_us=START_US + 5_000_000)
    assert at(builder, When("elapsed", 5_000_000)) == 1


def test_failed_requests_are_numbered_from_1() -> None:
    builder = SnapshotBuilder().alloc(512, 900).oom(1 << 30).alloc(2048, 5).oom(1 << 31)
    assert [at(builder, When("oom", number)) for number in (1, 2)] == [1, 3]
    for number in (0, 3):
        with pytest.raises(UsageError, match=f"2 failed requests, .*there is no {number}"):
            at(builder, When("oom", number))
    with pytest.raises(UsageError, match="no allocation failed"):
        at(waves(), When("oom", 1))
    snap = mr.open(build.dump(builder.build()), start=2)
    assert resolve(snap, snap.replay().measure(), When("oom", 1)) == 3


def held_to_the_steps(snap: mr.Snapshot, measure: MeasureName) -> int:
    """Check each step's moments against its events in `memreplay steps`. Return the number of
    steps.
    """
    steps = 0
    for found in mr.steps(snap).devices:
        replay = snap.replay(found.device)
        usage = replay.measure(measure)
        series = [usage.start_bytes, *usage.series.tolist()]
        base = replay.first_event
        steps += len(found.steps)
        for back, step in enumerate(found.steps, -len(found.steps)):
            first, last = step.first_event, step.last_event
            part = series[first - base + 1 : last - base + 2]
            highest = first + part.index(max(part))
            edges: dict[Edge, int] = {"start": first - 1, "end": last, "peak": highest}
            for edge, event in edges.items():
                for number in (step.number, back):
                    assert resolve(snap, usage, When("step", number, edge=edge)) == event
            if measure == "requested":
                assert highest == step.peak_event
    return steps


@pytest.mark.parametrize("start", [None, 60])
@pytest.mark.parametrize("measure", ["requested", "held", "reserved"])
def test_moments_match_guessed_steps(measure: MeasureName, start: int | None) -> None:
    data = leaky.snapshot_bytes(leaky.Options(steps=8))
    assert held_to_the_steps(mr.open(data, start=start), measure) > 3


def test_moments_match_annotated_steps() -> None:
    builder = SnapshotBuilder()
    for i in range(4):
        for k in range(3):
            builder.alloc((3 * i + k + 1) << 9, 100 + k, time_us=START_US + 100 * i + 10 * k)
        builder.free_completed((3 * i + 2) << 9, 101, time_us=START_US + 100 * i + 40)
        builder.annotation(f"ProfilerStep#{i}", "START", START_US + 100 * i - 5)
        builder.annotation(f"ProfilerStep#{i}", "END", START_US + 100 * i + 45)
    assert held_to_the_steps(mr.open(build.dump(builder.build())), "requested") == 4
    assert at(builder, When("step", 2)) == 3
    assert at(builder, When("step", 2, edge="end")) == 7
    assert at(builder, When("step", 2, edge="peak")) == 6
    for number in (0, 5, -5):
        with pytest.raises(UsageError, match=f"has 4 steps, .*there is no step {number}; memr"):
            at(builder, When("step", number))
    with pytest.raises(UsageError, match="device 0 has no steps: "):
        at(SnapshotBuilder().segment(4096, 2 << 20), When("step", 1))


@given(recordings(max_devices=1), st.randoms(use_true_random=False))
def test_peak_between_two_events_matches_a_scan(recording: Recording, dice: random.Random) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    assume(snap.devices)
    replay = snap.replay()
    usage = replay.measure("held")
    series = [usage.start_bytes, *usage.series.tolist()]
    first = dice.randint(-1, replay.events - 1)
    last = dice.randint(first, replay.events - 1)
    top = usage.highest(first, last)
    part = series[first + 1 : last + 2]
    assert (top.bytes, top.event_index) == (max(part), first + part.index(max(part)))
    assert usage.bytes_at(last) == series[last + 1]


def test_highest_moment_may_be_in_any_occurrence_of_a_name() -> None:
    snap = mr.open(build.dump(waves().build()))
    usage = snap.replay().measure()
    every = spans(snap, snap.replay())

    def highest(name: str) -> tuple[int, int] | None:
        found = highest_within(usage, every, name)
        return None if found is None else (found.bytes, found.event_index)

    # Two annotations are called "step", and one is called "step#9".
    assert highest("step") == (900, 0)
    assert highest("step#9") == (900, 0)
    assert highest("open") == (700, 2)
    assert highest("nothing") is None
    assert highest_within(usage, (), "step") is None


@given(recordings(max_steps=40, max_devices=1), st.data())
def test_highest_of_each_occurrence_matches_a_scan(
    recording: Recording, data: st.DataObject
) -> None:
    builder_times = [event["time_us"] for event in recording.snapshot["device_traces"][0]]
    assume(builder_times)
    bounds = st.integers(min(builder_times) - 2, max(builder_times) + 2)
    annotations = []
    for i in range(data.draw(st.integers(1, 4))):
        start, end = sorted((data.draw(bounds), data.draw(bounds)))
        for stage, time in (("START", start), ("END", end)):
            annotations.append({"name": f"a#{i}", "stage": stage, "device": 0, "time_us": time})
    snapshot: Any = {**recording.snapshot, "external_annotations": annotations}
    snap = mr.open(build.dump(snapshot))
    usage = snap.replay(0).measure()
    found = highest_within(usage, spans(snap, snap.replay(0)), "a")
    each = [
        usage.bytes_at(resolve(snap, usage, When("annotation", name=span.name, edge="peak")))
        for span in spans(snap, snap.replay(0))
    ]
    assert found is not None
    assert found.bytes == max(each)
