"""Tests of timeline's JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest

from memreplay.commands.timeline.result import TimelineReport
from memreplay.render.record_json import render_json
from tests.build import START_US, SnapshotBuilder
from tests.unit.commands.timeline.timelines import MIB, made
from tests.unit.render.schemas import check_against

REPORTS = [
    made(),
    made(by="stack", x="event", points=3),
    made(by="pool", measure=["reserved", "requested"], pool=None),
    made(SnapshotBuilder(times=False).alloc(512, 5).oom(7)),
    made(SnapshotBuilder(devices=0)),
]


@pytest.mark.parametrize("report", REPORTS)
def test_json_matches_the_schema(report: TimelineReport) -> None:
    text = render_json(report, indent=None)
    assert "\n" not in text
    check_against("timeline-1.json", json.loads(text))


def test_json_has_the_reports_numbers() -> None:
    found = json.loads(render_json(made(by="file", top=1, x="event", points=4)))
    assert (found["schema"], found["x"], found["points"], found["by"]) == (
        "memreplay.timeline/1",
        "event",
        4,
        "file",
    )
    first = found["devices"][0]
    assert first["event_index"] == [0, 20, 40, 60]
    assert first["bucket_events"] == [20, 20, 20, 21]
    assert first["min_bytes"] == [0, 210 * MIB, 200 * MIB, 0]
    assert first["max_bytes"] == [200 * MIB, 400 * MIB, 390 * MIB, 190 * MIB]
    assert first["max_event"] == [19, 39, 40, 60]
    assert first["time_us"][0] == START_US
    assert (first["peak_bytes"], first["peak_event"]) == (400 * MIB, 39)
    (group,) = first["groups"]
    assert group["label"] == "/home/ada/model.py"
    assert group["bytes"][1] == 300 * MIB
    assert first["rest_bytes"][1] == 100 * MIB
    marks = found["marks"][0]
    assert [one["name"] for one in marks["annotations"]] == ["step 1", "forward", "step 2"]
    assert marks["ooms"] == [{"event_index": 80, "time_us": START_US + 1_990_000}]
