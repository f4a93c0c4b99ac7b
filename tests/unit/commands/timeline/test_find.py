"""timeline: everything except the buckets (see tests/property/test_timeline.py)."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.moments.records import OutOfMemory
from memreplay.commands.timeline import find as timeline
from memreplay.commands.timeline.axis import Axis
from memreplay.commands.timeline.find import timeline_report
from memreplay.commands.timeline.result import TimelineReport
from memreplay.errors import UsageError
from memreplay.snapshot.model import Moment
from tests import build
from tests.build import START_US, SnapshotBuilder

HERE = [("alloc_here", "model.py", 3)]
THERE = [("there", "loss.py", 9)]


def report(builder: SnapshotBuilder, **options: object) -> TimelineReport:
    return timeline_report(mr.open(build.dump(builder.build())), **options)


def two_devices() -> SnapshotBuilder:
    builder = SnapshotBuilder(devices=2)
    builder.alloc(512, 100, frames=HERE, time_us=START_US)
    builder.alloc(1024, 30, frames=THERE, time_us=START_US + 4)
    builder.oom(1 << 40, time_us=START_US + 8)
    builder.free_completed(512, 100, time_us=START_US + 9)
    builder.alloc(512, 7, device=1, time_us=START_US + 100)
    builder.annotation("step", "START", START_US + 2)
    builder.annotation("step", "END", START_US + 6)
    return builder


def test_series_have_the_expected_numbers() -> None:
    first, second = report(two_devices(), measure=["requested"], points=2).devices
    assert (first.device, second.device) == (0, 1)
    assert (first.start_bytes, first.peak_bytes, first.end_bytes) == (0, 130, 30)
    assert (first.peak_event, first.peak_us) == (1, START_US + 4)
    assert (first.start_us, first.end_us) == (START_US, START_US + 9)
    assert first.buckets.time_us == [START_US, START_US + 5]
    assert first.buckets.event_index == [0, 2]
    assert first.buckets.events == [2, 2]
    assert first.buckets.min_bytes == [0, 30]
    assert first.buckets.max_bytes == [130, 130]
    assert first.buckets.max_event == [1, 1]  # the second bucket starts with this event
    assert second.buckets.max_bytes == [7]
    assert not first.layers
    assert not first.rest


def test_buckets_may_be_by_event() -> None:
    first, _ = report(two_devices(), x="event", points=2).devices
    assert first.buckets.event_index == [0, 2]
    assert first.buckets.max_event == [1, 2]
    assert first.buckets.time_us == [START_US, START_US + 8]
    assert first.buckets.min_bytes == [0, 30]


def test_measures_of_a_device_are_adjacent() -> None:
    found = report(two_devices(), measure=["held", "requested", "held"])
    assert [(one.device, one.measure) for one in found.devices] == [
        (0, "held"),
        (0, "requested"),
        (1, "held"),
        (1, "requested"),
    ]


def test_out_of_memory_events_and_annotations_are_marked() -> None:
    first, second = report(two_devices()).marks
    assert first.ooms == (OutOfMemory(2, START_US + 8),)
    (span,) = first.annotations
    assert (span.name, span.start_event, span.end_event) == ("step", 0, 1)
    assert (second.device, second.ooms) == (1, ())


def test_annotations_outside_the_range_are_left_out() -> None:
    builder = SnapshotBuilder()
    for i in range(5):
        builder.alloc(512 * (i + 1), 5, time_us=START_US + i)
    for name, start, end in (
        ("before", -9, -1),
        ("into it", -9, 0),
        ("in it", 1, 2),
        ("out of it", 4, 9),
        ("after", 5, 9),
    ):
        builder.annotation(name, "START", START_US + start)
        builder.annotation(name, "END", START_US + end)
    builder.annotation("without an end", "START", START_US - 20)
    (marks,) = report(builder).marks
    names = [span.name for span in marks.annotations]
    assert names == ["without an end", "into it", "in it", "out of it"]


def test_each_group_is_a_layer() -> None:
    found = report(two_devices(), by="file", top=1, x="event", points=4)
    first = found.devices[0]
    (layer,) = first.layers
    assert (layer.group.label, layer.group.bytes) == ("model.py", 100)
    assert layer.bytes == [100, 100, 100, 0]
    assert first.rest_bytes == (0, 30, 30, 30)
    assert first.groups_total == 2


def test_range_limits_the_buckets() -> None:
    snap = mr.open(
        build.dump(two_devices().build()),
        start=Moment("event", 1),
        stop=Moment("event", 3),
    )
    first = timeline_report(snap, x="event", by="stack").devices[0]
    assert (first.first_event, first.events, first.trace_events) == (1, 2, 4)
    assert first.buckets.event_index == [1, 2]
    assert first.buckets.max_event == [1, 2]
    assert timeline_report(snap).marks[0].ooms == (OutOfMemory(2, START_US + 8),)


def test_axis_shows_events_if_there_are_no_times() -> None:
    builder = SnapshotBuilder(times=False).alloc(512, 5).alloc(1024, 6)
    found = report(builder)
    assert found.x == "event"
    assert found.devices[0].buckets.time_us == [None, None]
    assert found.devices[0].start_us is None
    with pytest.raises(UsageError, match=r"device 0 have no times; use x='event'"):
        report(builder, x="time")


def test_axis_shows_events_if_all_times_are_equal() -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 5, time_us=START_US).alloc(1024, 6, time_us=START_US)
    assert report(builder).x == "event"
    (one,) = report(builder, x="time", points=9).devices
    assert one.buckets.max_bytes == [11]
    assert one.buckets.time_us == [START_US]


def test_final_state_is_one_bucket() -> None:
    builder = SnapshotBuilder()
    builder.segment(1 << 30, 2 << 20, blocks=[builder.block(1 << 30, 1024, 1000)])
    for x in ("event", "time", None):
        (one,) = report(builder, x=x, by="stack").devices
        assert one.buckets.max_bytes == [1000]
        assert one.buckets.event_index == one.buckets.max_event == [-1]
        assert one.buckets.time_us == [None]
        assert [layer.bytes for layer in one.layers] == [[1000]]


def test_unsupported_options_are_rejected() -> None:
    with pytest.raises(UsageError, match="grouped by pool or stream"):
        report(two_devices(), measure=["requested", "reserved"], by="stack")
    with pytest.raises(UsageError, match="no pool"):
        report(two_devices(), pool=(9, 9))


def test_too_many_layers_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_LAYERED", 11)
    assert report(two_devices(), by="file", top=1, x="event").devices
    with pytest.raises(UsageError, match="2 groups in 4 buckets are too many"):
        report(two_devices(), by="file", top=0, x="event")


def bursts(*moments_us: int) -> SnapshotBuilder:
    """Build 60 events, a microsecond apart, at each of these times."""
    builder = SnapshotBuilder()
    for number, moment in enumerate(moments_us):
        for i in range(30):
            at = START_US + moment + 2 * i
            builder.alloc(512 * (i + 1), 512 * (number + 1), frames=HERE, time_us=at)
            builder.free_completed(512 * (i + 1), 512 * (number + 1), time_us=at + 1)
    return builder


def test_axis_shows_events_if_most_time_is_idle() -> None:
    # The program loads data for 9 seconds, then runs three steps.
    late = bursts(0, 9_000_000, 9_100_000, 9_200_000)
    found = report(late)
    assert (found.x, found.idle) == ("event", True)
    assert (report(late, x="time").x, report(late, x="event").idle) == ("time", False)
    words = Axis.of(found, absolute=False).words(80)
    assert words == "events, 3.0 a character; most of the time is idle (--x time shows it)"
    # The program is never idle for long.
    steady = report(bursts(*range(0, 10_000_000, 100_000)))
    assert (steady.x, steady.idle) == ("time", False)
    assert (
        Axis.of(steady, absolute=False).words(1) == "time since the first event, 9.90 s a character"
    )
    # A few events aren't enough to tell.
    assert report(bursts(0)).x == "time"
    few = SnapshotBuilder().alloc(512, 1, time_us=START_US).alloc(1024, 1, time_us=START_US + 10**7)
    assert report(few).x == "time"
