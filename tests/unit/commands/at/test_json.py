"""Tests of at's JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from memreplay.commands.at.result import AtReport
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import When
from tests.unit.commands.at.test_text import (
    FOUND,
    REPORT,
    ROW,
    STACK,
    listing,
)
from tests.unit.commands.results import BY_POOL
from tests.unit.render.schemas import check_against

OLD = replace(
    ROW,
    alloc_event=None,
    alloc_us=None,
    age_us=None,
    age_events=None,
    free_event=None,
    free_us=None,
    freed_at=None,
    stream=None,
    pool=None,
)


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        replace(REPORT, devices=(), missing=("device 1 has no event 3",)),
        replace(REPORT, devices=(listing(ROW, ROW),)),
        replace(REPORT, devices=(replace(listing(OLD), moment=When("peak", 2), start_us=None),)),
        replace(REPORT, by="pool", devices=(replace(FOUND, pools=BY_POOL.devices[0].parts),)),
    ],
)
def test_json_matches_the_schema(report: AtReport) -> None:
    check_against("at-1.json", json.loads(render_json(report)))


def test_json_has_the_reports_numbers() -> None:
    found = json.loads(render_json(replace(REPORT, devices=(listing(ROW),))))
    assert found["schema"] == "memreplay.at/1"
    (device,) = found["devices"]
    assert device["moment"] == {"kind": "annotation", "value": 0, "name": "step#2", "edge": "end"}
    assert (device["live_bytes"], device["live_count"]) == (8 << 30, 110)
    held = sum(group["bytes"] for group in device["groups"]) + device["rest_bytes"]
    assert held == device["live_bytes"]
    (row,) = device["allocations"]
    assert row["freed_at"]["function"] == "zero_grad"
    (stack,) = device["stacks"]
    assert (row["stack"], row["label"]) == (0, stack["label"])
    assert [frame["function"] for frame in stack["frames"]] == [
        one.function for one in STACK.frames
    ]
    assert (row["alloc_event"], row["free_event"], row["pool"]) == (10, 1234, [0, 0])
