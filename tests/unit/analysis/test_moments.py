"""moments: which event is meant by a peak, a time, an annotation, and what is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.moments import resolve
from memreplay.errors import UsageError
from memreplay.model import When
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import START_US, SnapshotBuilder


def at(builder: SnapshotBuilder, when: When) -> int:
    snap = mr.open(build.dump(builder.build()))
    return resolve(snap, snap.replay().measure(), when)


def waves() -> SnapshotBuilder:
    """Two peaks: 900 after event 0, 700 after event 2; 10 us an event; annotated."""
    builder = SnapshotBuilder()
    builder.alloc(512, 900, time_us=START_US)
    builder.free_completed(512, 900, time_us=START_US + 10)
    builder.alloc(1024, 700, time_us=START_US + 20)
    builder.free_completed(1024, 700, time_us=START_US + 30)
    for name, start, end in (("step", 5, 15), ("step", 15, 35), ("step#9", 0, 1)):
        builder.annotation(name, "START", START_US + start)
        builder.annotation(name, "END", START_US + end)
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
        (When("elapsed", 10**12), 3),
        (When("time", START_US + 10), 1),
        (When("time", 0), -1),
        (When("peak", 1), 0),
        (When("peak", 2), 2),
        (When("annotation", name="step"), 0),
        (When("annotation", name="step#1"), 0),
        (When("annotation", name="step#2"), 1),
        (When("annotation", name="step#-1"), 1),
        (When("annotation", name="step#2", edge="end"), 3),
        (When("annotation", name="step#2", edge="peak"), 2),
        (When("annotation", name="step#1", edge="peak"), 0),  # the state in which it began
        (When("annotation", name="step#9", edge="end"), 0),  # its name, not the ninth
        (When("annotation", name="open", edge="peak"), 2),
    ],
)
def test_which_event(when: When, event: int) -> None:
    assert at(waves(), when) == event


@pytest.mark.parametrize(
    "when, words",
    [
        (When("event", 4), "no event 4; its events: 0 to 3"),
        (When("event", -2), "no event -2"),
        (When("peak", 0), "peaks count from 1"),
        (When("peak", 3), "2 separate peaks; there is no peak 3"),
        (When("annotation", name="stop"), "no annotation 'stop'; there are: step#9, step, open"),
        (When("annotation", name="stop#1"), "no annotation 'stop#1'"),
        (When("annotation", name="step#x"), "no annotation 'step#x'"),
        (When("annotation", name="step#3"), "'step' is there 2 times"),
        (When("annotation", name="step#0"), "there is no #0"),
        (When("annotation", name="open#2"), "'open' is there once"),
        (When("annotation", name="open", edge="end"), "does not end in this recording"),
    ],
)
def test_what_is_not_there(when: When, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        at(waves(), when)


def test_without_annotations_or_times() -> None:
    with pytest.raises(UsageError, match="has no annotations; record them"):
        at(SnapshotBuilder().alloc(512, 1), When("annotation", name="a"))
    timeless = SnapshotBuilder(times=False).alloc(512, 1).annotation("a", "START", START_US)
    for when in (When("elapsed", 5), When("time", 5), When("annotation", name="a")):
        with pytest.raises(UsageError, match="no times"):
            at(timeless, when)
    elsewhere = SnapshotBuilder().alloc(512, 1).annotation("a", "START", START_US, device=3)
    with pytest.raises(UsageError, match="device 0 has no annotations"):
        at(elsewhere, When("annotation", name="a"))


@given(recordings(max_devices=1), st.randoms(use_true_random=False))
def test_the_peak_between_two_events(recording: Recording, dice: random.Random) -> None:
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
