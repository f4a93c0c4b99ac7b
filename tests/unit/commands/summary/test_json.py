"""Tests of summary's JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from memreplay.commands.summary.result import DeviceSummary, SnapshotSummary
from memreplay.declared import text_only
from memreplay.render.record_json import render_json
from tests.unit.commands.results import ODD_SUMMARY, SUMMARY
from tests.unit.render.schemas import check_against


@pytest.mark.parametrize(
    "summary",
    [SUMMARY, ODD_SUMMARY, replace(SUMMARY, devices=(), file_bytes=None, overflowed=None)],
)
def test_json_matches_the_schema(summary: SnapshotSummary) -> None:
    check_against("summary-1.json", json.loads(render_json(summary)))


def test_every_field_of_the_model_is_present() -> None:
    result = json.loads(render_json(SUMMARY))
    # If the file is truncated, fields after the cut are missing.
    known = set(SnapshotSummary.__struct_fields__) - {"unknown_devices"}
    assert set(result) == {"schema"} | known
    of_device = set(DeviceSummary.__struct_fields__) - text_only(DeviceSummary)
    assert set(result["devices"][0]) == of_device
    assert result["schema"] == "memreplay.summary/1"
    assert result["devices"][0]["actions"]["alloc"] == 8_000
    assert result["devices"][0]["states"][1] == {
        "state": "inactive",
        "block_count": 40,
        "size_bytes": 7 * 1024**3,
        "requested_bytes": 0,
    }


def test_json_without_an_indent_is_one_line() -> None:
    text = render_json(ODD_SUMMARY, indent=None)
    assert "\n" not in text
    assert json.loads(text) == json.loads(render_json(ODD_SUMMARY))
