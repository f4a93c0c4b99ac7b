"""Tests of report's JSON, including its schema and those of its sections."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import memreplay as mr
from ci.schemas import all_schemas
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.oom.find import oom_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.report.find import HOLDERS, OTHERS, overview
from memreplay.commands.steps.find import steps_report
from memreplay.errors import MemreplayError
from memreplay.render.record_json import render_json
from tests import build
from tests.conftest import SNAPSHOTS
from tests.unit.commands.report.test_find import two_devices
from tests.unit.render.schemas import check_against

COMMANDS: dict[str, Any] = {
    "peak": lambda snap: render_json(peak_report(snap, top=HOLDERS)),
    "fragmentation": lambda snap: render_json(fragmentation_report(snap, top=OTHERS)),
    "steps": lambda snap: render_json(steps_report(snap)),
    "leaks": lambda snap: render_json(leaks_report(snap, top=OTHERS)),
    "oom": lambda snap: render_json(oom_report(snap, most=1, top=HOLDERS)),
}


def check(data: Any) -> dict[str, Any]:
    """Check that the report and its sections fit their schemas and match their commands."""
    found: dict[str, Any] = json.loads(render_json(overview(mr.open(data))))
    check_against("report-1.json", found)
    for name, command in COMMANDS.items():
        try:
            want = {one["device"]: one for one in json.loads(command(mr.open(data)))["devices"]}
        except MemreplayError:
            want = {}
        whole = all_schemas()[f"{name}-1.json"]
        parts = {"$defs": whole.get("$defs", {})}
        schema = {**whole["properties"]["devices"]["items"], **parts}
        for device in found["devices"]:
            assert device[name] == want.get(device["device"]), name
            if device[name] is not None:
                jsonschema.Draft202012Validator(schema).validate(device[name])
            else:
                assert device["missing_parts"][name]
    peaks = json.loads(render_json(peak_report(mr.open(data), top=OTHERS, caught=True)))["devices"]
    caught = {one["device"]: one["caught"] for one in peaks}
    assert {one["device"]: one["caught"] for one in found["devices"]} == caught
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_examples_match_the_schema(path: Any) -> None:
    found = check(path)
    assert found["devices"]
    for device in found["devices"]:
        assert device["peak_bytes"] == device["peak"]["peak_bytes"]
        assert len(device["peak"]["groups"]) <= HOLDERS
        assert device["advice"]
        assert all(one["text"] for one in device["advice"])


def test_highest_device_comes_first() -> None:
    found = check(build.dump(two_devices().build()))
    assert [one["device"] for one in found["devices"]] == [1, 0, 2]


def test_empty_snapshot_has_no_devices() -> None:
    assert check(build.dump({"segments": [], "device_traces": []}))["devices"] == []
