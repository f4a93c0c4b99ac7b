"""timeline_axis: the positions of buckets, annotations and events."""

from __future__ import annotations

from memreplay.commands.timeline.axis import Axis
from tests.build import START_US
from tests.unit.commands.timeline.timelines import made


def test_axis_may_count_events() -> None:
    report = made(x="event", points=8)
    axis = Axis.of(report, absolute=False)
    assert (axis.start, axis.stop, axis.name()) == (0, 81, "events")
    first, second = report.devices
    assert axis.edges(first)[:3] == [0, 10, 20]
    assert axis.edges(first)[-1] == 81
    assert axis.edges(second)[-1] == 40
    assert [axis.column(at, 9) for at in (-5, 0, 8, 9, 80, 99)] == [0, 0, 0, 1, 8, 8]
    assert axis.words(9) == "events, 9.0 a character"
    assert axis.words(900) == "events"
    step, forward, _ = report.marks[0].annotations
    assert axis.extent(step, first) == (0, 41)
    assert axis.extent(forward, first) == (4, 21)
    assert axis.at(report.marks[0].ooms[0], first) == 80


def test_axis_may_show_elapsed_time() -> None:
    report = made(points=10)
    axis = Axis.of(report, absolute=False)
    first, second = report.devices
    assert (axis.start, axis.stop) == (0, 1_990_001)
    assert axis.edges(first)[:2] == [0, 199_000]
    assert axis.edges(second)[-1] == 975_001
    assert axis.words(10) == "time since the first event, 199.00 ms a character"
    assert axis.words(1) == "time since the first event, 1.99 s a character"
    assert axis.words(100_000) == "time since the first event, 19 us a character"
    assert axis.words(3_000_000) == "time since the first event"
    assert axis.extent(report.marks[0].annotations[1], first) == (100_000, 500_000)
    assert axis.at(report.marks[0].ooms[0], first) == 1_990_000


def test_axis_may_show_utc() -> None:
    report = made(points=10)
    axis = Axis.of(report, absolute=True)
    first, second = report.devices
    assert (axis.start, axis.stop) == (START_US, START_US + 1_990_001)
    assert axis.edges(second)[0] == START_US + 500_000
    assert axis.at(report.marks[0].ooms[0], first) == START_US + 1_990_000
    assert axis.name() == "time (UTC), from 2023-11-14 22:13:20.000000 UTC"
