"""Tests of commands/leaks/json.py, against docs/schemas/leaks-1.json."""

from __future__ import annotations

import json
from dataclasses import replace

import leaky
import memreplay as mr
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.leaks.json import render_leaks_json
from tests.unit.render.schemas import check_against
from tests.unit.reports.numbered import check_numbers, numbered


def test_schema_and_values() -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=30)))
    report = leaks_report(snap, total_memory=1 << 30, top=2)
    result = json.loads(render_leaks_json(report))
    check_against("leaks-1.json", result)
    assert result["leaking"] is True
    (device,) = result["devices"]
    (leak,) = device["leaks"]
    assert leak["bytes_per_step"] == device["leak_bytes_per_step"] == 64 << 10
    assert leak["growth_bytes"] == device["leak_bytes"] == 20 * (64 << 10)
    assert leak["frames"][leak["user"][0]]["line"] == 54
    assert (len(device["once"]), device["once_total"]) == (2, 7)
    assert device["runs_out"]["given"] is True


def test_each_number_is_its_own() -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=30)))
    report = leaks_report(snap, total_memory=1 << 30)
    leak = numbered(report.devices[0].leaks[0])
    device = numbered(replace(report.devices[0], leaks=(leak,)))
    found = json.loads(render_leaks_json(replace(report, devices=(device,))))["devices"][0]
    names = {"rate": "bytes_per_step", "rate_error": "bytes_per_step_error"}
    names |= {"since": "since_step", "until": "until_step"}
    check_numbers(leak, found["leaks"][0], names)
    names = {"whole_rate": "whole_bytes_per_step", "leak_rate": "leak_bytes_per_step"}
    check_numbers(device, found, names | {"warm_up": "warm_up_steps"})


def test_nothing_found() -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=30, leak_bytes=0)))
    report = leaks_report(snap)
    none = replace(report.devices[0], source=None, step_us=None)
    result = json.loads(render_leaks_json(replace(report, devices=(none,), stream=7)))
    check_against("leaks-1.json", result)
    assert (result["leaking"], result["stream"]) == (False, 7)
    assert result["devices"][0]["source"] is None
    assert result["devices"][0]["runs_out"] is None
