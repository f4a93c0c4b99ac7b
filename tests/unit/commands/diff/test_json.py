"""Tests of diff's JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from memreplay.commands.diff.result import DiffReport
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import When
from tests.unit.commands.diff.test_text import DEVICE, REPORT
from tests.unit.commands.numbered import check_numbers, numbered
from tests.unit.render.schemas import check_against


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        replace(REPORT, devices=(), only_base=(1,)),
        replace(REPORT, moment=When("annotation", name="a", edge="end"), by="file"),
    ],
)
def test_json_matches_the_schema(report: DiffReport) -> None:
    check_against("diff-1.json", json.loads(render_json(report)))


def test_json_has_the_reports_numbers() -> None:
    found = json.loads(render_json(REPORT))
    assert found["schema"] == "memreplay.diff/1"
    (device,) = found["devices"]
    assert device["change_bytes"] == device["new_bytes"] - device["base_bytes"] == 2 << 30
    changes = sum(row["change_bytes"] for row in device["rows"])
    assert changes == 3 * 2**30 - 2**30 + 2**20
    assert device["rest_change_bytes"] == DEVICE.rest_change_bytes
    assert [row["status"] for row in device["rows"]] == ["grew", "gone", "new"]


def test_every_number_is_under_its_own_key() -> None:
    row = numbered(DEVICE.rows[0])
    found = json.loads(render_json(replace(REPORT, devices=(replace(DEVICE, rows=(row,)),))))
    check_numbers(row, found["devices"][0]["rows"][0])
