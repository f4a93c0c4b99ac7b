"""timeline_csv: one row per bucket, one column per group."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from memreplay.commands.timeline.csv import COLUMNS, render_timeline_csv
from memreplay.commands.timeline.result import TimelineReport
from tests.build import START_US, SnapshotBuilder
from tests.unit.commands.timeline.timelines import FORWARD, made, measured


def rows(report: TimelineReport) -> list[list[str]]:
    text = render_timeline_csv(report)
    assert not text.endswith("\n")
    return list(csv.reader(StringIO(text)))


@pytest.mark.parametrize("x", ["time", "event"])
def test_measured_memory_has_columns(x: str) -> None:
    report = made(measured(1), points=8, x=x)
    titles, *found = rows(report)
    assert titles == [*COLUMNS, "outside_bytes", "other_bytes"]
    at = titles.index("outside_bytes")
    first = [row for row in found if row[0] == "0"]
    ends = [int(row[4]) for row in first[1:]]
    times = (START_US + 300_000, START_US + 1_100_000, START_US + 9_000_000)
    expected = []
    for end in [*ends, 2 * times[-1]]:  # the last bucket ends with the recording
        samples = [["", ""], ["40", ""], ["140", "300"], ["240", "300"]]
        expected.append(samples[sum(time <= end for time in times)])
    assert [row[at : at + 2] for row in first] == expected
    assert len({*map(tuple, expected)}) == 4
    assert all(row[at : at + 2] == ["", ""] for row in found if row[0] == "1")


def test_each_bucket_has_a_row() -> None:
    report = made(points=7, measure=["requested", "held"])
    titles, *found = rows(report)
    assert titles == list(COLUMNS)
    assert len(found) == sum(len(one.buckets) for one in report.devices)
    first = report.devices[0].buckets
    assert found[1] == [
        "0",
        "requested",
        *(
            str(column[1])
            for column in (
                first.event_index,
                first.events,
                first.time_us,
                first.min_bytes,
                first.max_bytes,
                first.max_event,
            )
        ),
    ]


def test_columns_of_groups_add_up() -> None:
    report = made(points=7, by="file")
    titles, *found = rows(report)
    n = len(COLUMNS)
    assert titles[n:] == ["/home/ada/model.py", "/home/ada/loss.py", "(others)"]
    assert all(sum(map(int, row[n:])) == int(row[6]) for row in found)
    for i, layer in enumerate(report.devices[0].layers):
        assert [int(row[n + i]) for row in found[:7]] == layer.bytes


def test_duplicate_or_odd_names_are_escaped() -> None:
    builder = SnapshotBuilder(times=False)
    builder.alloc(512, 9, frames=FORWARD).alloc(1024, 8, frames=FORWARD[:2])
    builder.alloc(2048, 7, frames=[('say "hi",\n\x1b[1m', "a.py", 1)])
    text = render_timeline_csv(made(builder, by="stack"))
    titles, *found = csv.reader(StringIO(text))
    assert titles[len(COLUMNS) :] == [
        "forward /home/ada/model.py:7",
        "forward /home/ada/model.py:7 #2",
        'say "hi",\\n\\x1b[1m a.py:1',
        "(others)",
    ]
    assert found[-1][4] == ""  # no time
    assert len(text.split("\n")) == 4
