"""Tests of the JSON of commands/summary, against its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from memreplay.commands.summary.result import DeviceSummary, SnapshotSummary
from memreplay.render.record_json import render_json
from memreplay.snapshot.record import text_only
from tests.unit.commands.results import ODD_SUMMARY, SUMMARY
from tests.unit.render.schemas import check_against


@pytest.mark.parametrize(
    "summary",
    [SUMMARY, ODD_SUMMARY, replace(SUMMARY, devices=(), file_bytes=None, overflowed=None)],
)
def test_schema(summary: SnapshotSummary) -> None:
    check_against("summary-1.json", json.loads(render_json(summary)))


def test_every_field_of_the_model_is_there() -> None:
    result = json.loads(render_json(SUMMARY))
    # It has none that lie behind a cut.
    known = set(SnapshotSummary.__struct_fields__) - {"unknown_devices"}
    assert set(result) == {"schema"} | known
    of_device = set(DeviceSummary.__struct_fields__) - text_only(DeviceSummary)
    assert set(result["devices"][0]) == of_device
    assert result["schema"] == "memreplay.summary/1"
    assert result["devices"][0]["actions"]["alloc"] == 8_000
    assert result["devices"][0]["states"][1] == {
        "state": "inactive",
        "blocks": 40,
        "size_bytes": 7 * 1024**3,
        "requested_bytes": 0,
    }


def test_one_line_without_an_indent() -> None:
    text = render_json(ODD_SUMMARY, indent=None)
    assert "\n" not in text
    assert json.loads(text) == json.loads(render_json(ODD_SUMMARY))
