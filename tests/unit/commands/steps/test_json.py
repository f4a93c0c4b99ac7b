"""Tests of steps' JSON, including its JSON schema."""

from __future__ import annotations

import json

from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.commands.steps.find import steps_report
from memreplay.render.record_json import render_json
from tests.unit.commands.numbered import check_numbers, numbered
from tests.unit.render.schemas import check_against


def test_json_matches_the_schema_and_the_report() -> None:
    report = steps_report(mr.open(leaky.snapshot_bytes(leaky.Options(steps=30, evaluate_every=9))))
    result = json.loads(render_json(report))
    check_against("steps-1.json", result)
    (device,) = result["devices"]
    assert device["step_source"] == {
        "found_by": "annotation",
        "name": "ProfilerStep",
        "score": 1.0,
        "taken_together": 1,
        "doubt": None,
    }
    assert [step["number"] for step in device["steps"]] == list(range(1, 31))
    assert device["steps"][3]["name"] == "ProfilerStep#3"
    assert {one["number"] for one in device["odd"]} == {9, 18, 27}
    assert device["warm_up_steps"] + 1 == device["steady"]["first"]


def test_json_without_steps_matches_the_schema() -> None:
    report = steps_report(mr.open(leaky.snapshot_bytes(leaky.Options(steps=3))))
    (device,) = report.devices
    none = replace(
        device,
        step_source=None,
        steps=(),
        before=None,
        between=None,
        after=None,
        steady=None,
        odd=(),
    )
    result = json.loads(render_json(replace(report, devices=(none,), pool=(0, 1))))
    check_against("steps-1.json", result)
    assert result["pool"] == [0, 1]
    assert result["devices"][0]["step_source"] is None


def test_every_number_is_under_its_own_key() -> None:
    report = steps_report(mr.open(leaky.snapshot_bytes(leaky.Options(steps=30, evaluate_every=9))))
    (device,) = report.devices
    steady, step, before = map(numbered, (device.steady, device.steps[0], device.before))
    made = numbered(replace(device, steady=steady, steps=(step,), before=before))
    (found,) = json.loads(render_json(replace(report, devices=(made,))))["devices"]
    check_numbers(made, found)
    check_numbers(steady, found["steady"])
    check_numbers(step, found["steps"][0])
    check_numbers(before, found["before"])
