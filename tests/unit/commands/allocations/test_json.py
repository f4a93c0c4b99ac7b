"""Tests of allocations' JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from memreplay.commands.allocations.result import AllocationGroup, AllocationsReport
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import Group
from tests.unit.commands.allocations.test_text import (
    EMPTY,
    FOUND,
    REPORT,
    TIMELESS,
    TOTAL,
    grouped,
)
from tests.unit.commands.results import GIB
from tests.unit.render.schemas import check_against

POOL = grouped(Group(label="user pool 0:1", bytes=GIB, count=9, share=0.1), TOTAL, pool=(0, 1))
NO_POOL = grouped(Group(label="(pool not known)", bytes=GIB, count=9, share=0.1), TOTAL, pool=None)
STREAM = grouped(Group(label="stream 7", bytes=GIB, count=9, share=0.1), TOTAL, stream=7)
SIZE = grouped(
    Group(label="8 B to 16 B", bytes=90, count=9, share=0.1), TOTAL, min_bytes=8, max_bytes=15
)


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        replace(REPORT, devices=()),
        replace(REPORT, devices=(EMPTY, TIMELESS), temporary_threshold=3, sort="mean-lifetime"),
        replace(REPORT, by="pool", devices=(replace(FOUND, groups=(POOL, NO_POOL)),)),
        replace(REPORT, by="stream", stream=7, devices=(replace(FOUND, groups=(STREAM,)),)),
        replace(REPORT, by="size", pool=(0, 1), devices=(replace(FOUND, groups=(SIZE,)),)),
    ],
)
def test_json_matches_the_schema(report: AllocationsReport) -> None:
    check_against("allocations-1.json", json.loads(render_json(report)))


def test_json_has_the_reports_numbers() -> None:
    found = json.loads(render_json(REPORT))
    assert found["schema"] == "memreplay.allocations/1"
    assert (found["by"], found["sort"], found["temporary_threshold"]) == ("stack", "bytes", 0)
    (device,) = found["devices"]
    assert (device["allocation_count"], device["frees"], device["live_count"]) == (
        2_000,
        1_900,
        100,
    )
    assert device["allocation_count"] == sum(one["count"] for one in device["sizes"])
    assert device["allocated_bytes"] == 40 * GIB
    assert (device["peak_ratio"], device["allocations_per_s"]) == (5.0, 1_000.0)
    assert device["bytes_per_s"] == 20 * GIB
    ended = sum(one["count"] for one in device["lifetimes_us"]) + device["untimed_count"]
    assert ended == device["frees"]
    shown = sum(one["bytes"] for one in device["groups"]) + device["rest_bytes"]
    assert shown == device["allocated_bytes"]
    assert device["sizes"][0] == {"min_bytes": 4, "max_bytes": 7, "count": 500, "bytes": 2_000}
    assert set(device["lifetimes_events"][0]) == {"min_events", "max_events", "count", "bytes"}


def test_unknown_values_are_null() -> None:
    report = replace(REPORT, devices=(replace(EMPTY, peak_bytes=0), TIMELESS))
    empty, timeless = json.loads(render_json(report))["devices"]
    for key in ("min_bytes", "mean_bytes", "median_lifetime_us", "peak_ratio", "bytes_per_s"):
        assert empty[key] is None
    for key in ("lifetimes_us", "duration_us", "mean_lifetime_us", "allocations_per_s"):
        assert timeless[key] is None


def test_groups_have_their_key() -> None:
    def first(group: AllocationGroup, by: str) -> dict[str, object]:
        report = replace(REPORT, by=by, devices=(replace(FOUND, groups=(group,)),))
        one: dict[str, object] = json.loads(render_json(report))["devices"][0]["groups"][0]
        return one

    assert first(POOL, "pool")["pool"] == [0, 1]
    assert first(NO_POOL, "pool")["pool"] is None
    assert first(STREAM, "stream")["stream"] == 7
    size = first(SIZE, "size")
    assert (size["min_bytes"], size["max_bytes"]) == (8, 15)
