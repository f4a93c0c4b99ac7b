"""Tests of leaks' JSON, including its JSON schema."""

from __future__ import annotations

import json

from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.commands.leaks.find import leaks_report
from memreplay.render.record_json import render_json
from tests.unit.commands.numbered import check_numbers, numbered
from tests.unit.render.schemas import check_against


def test_json_matches_the_schema_and_the_report() -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=30)))
    report = leaks_report(snap, total_memory=1 << 30, top=2)
    result = json.loads(render_json(report))
    check_against("leaks-1.json", result)
    assert result["leaking"] is True
    (device,) = result["devices"]
    (leak,) = device["leaks"]
    assert leak["bytes_per_step"] == device["leak_bytes_per_step"] == 64 << 10
    assert leak["growth_bytes"] == device["leak_bytes"] == 20 * (64 << 10)
    assert leak["frames"][leak["user"][0]]["line"] == 54
    assert (len(device["once"]), device["once_total"]) == (2, 7)
    assert device["runs_out"]["given"] is True


def test_every_number_is_under_its_own_key() -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=30)))
    report = leaks_report(snap, total_memory=1 << 30)
    leak = numbered(report.devices[0].leaks[0])
    device = numbered(replace(report.devices[0], leaks=(leak,)))
    found = json.loads(render_json(replace(report, devices=(device,))))["devices"][0]
    check_numbers(leak, found["leaks"][0])
    check_numbers(device, found)


def test_warm_bytes_are_measured_after_warm_up() -> None:
    """Memory grows during warm-up, so it starts below the level after warm-up."""
    (device,) = leaks_report(mr.open(leaky.snapshot_bytes(leaky.Options(steps=30)))).devices
    assert device.start_bytes < device.warm_bytes <= device.end_bytes


def test_nothing_leaks_in_the_json_of_a_clean_run() -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=30, leak_bytes=0)))
    report = leaks_report(snap)
    none = replace(report.devices[0], step_source=None, step_us=None)
    result = json.loads(render_json(replace(report, devices=(none,), stream=7)))
    check_against("leaks-1.json", result)
    assert (result["leaking"], result["stream"]) == (False, 7)
    assert result["devices"][0]["step_source"] is None
    assert result["devices"][0]["runs_out"] is None
