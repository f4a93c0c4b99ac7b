"""Writes a report as JSON, schema memreplay.report/1 (docs/json.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from memreplay.commands.fragmentation.result import UnusedPoint
from memreplay.commands.report.advice_words import advice_words
from memreplay.commands.report.result import Advice, DeviceOverview, Overview
from memreplay.commands.report.text import commands
from memreplay.render.record_json import render_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.report/1"
# What writes each part: its command's own report, so that nothing is described twice.
_PARTS: dict[str, Callable[[Any], str]] = {
    "peak": render_json,
    "categories": render_json,
    "fragmentation": render_json,
    "steps": render_json,
    "leaks": render_json,
    "oom": render_json,
}


def render_report_json(report: Overview) -> str:
    """One indented object; each part of a device is the object that the part's command writes."""
    parts: dict[str, dict[int, object]] = {}
    for name, render in _PARTS.items():
        found = getattr(report, name)
        devices = [] if found is None else json.loads(render(found))["devices"]
        parts[name] = {one["device"]: one for one in devices}
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "truncated": report.truncated,
            "devices": [_device(device, parts, report.file) for device in report.devices],
        },
        indent=2,
    )


def _device(
    device: DeviceOverview, parts: dict[str, dict[int, object]], file: str
) -> dict[str, object]:
    step = device.step
    return {
        "device": device.device,
        "trusted": device.trusted,
        "exactness": device.exactness,
        "reasons": list(device.reasons),
        "ran_out": device.ran_out,
        "peak_bytes": device.peak.peak_bytes,
        "reserved_peak_bytes": device.reserved_bytes,
        "reserved_event_index": device.reserved_event,
        "reserved_exactness": device.reserved_exactness,
        "total_bytes": device.total_bytes,
        "total_known": device.total_known,
        "annotations": list(device.peak.annotations),
        "step": None if step is None else {"index": step.index, "name": step.name},
        "category": device.peak_category,
        "unused": None if device.unused is None else _unused(device.unused),
        "advice": [_advice(one, device) for one in device.advice],
        "commands": commands(device, file),
        "missing": {one.part: one.why for one in device.missing},
        **{name: found.get(device.device) for name, found in parts.items()},
    }


def _unused(point: UnusedPoint) -> dict[str, object]:
    return {
        "event_index": point.event_index,
        "time_us": point.time_us,
        "reserved_bytes": point.reserved_bytes,
        "active_bytes": point.active_bytes,
        "unused_bytes": point.unused_bytes,
    }


def _advice(one: Advice, device: DeviceOverview) -> dict[str, object]:
    return {
        "name": one.name,
        "text": advice_words(one, device),
        "bytes": one.bytes,
        "of_bytes": one.of_bytes,
        "count": one.count,
        "place": None
        if one.place is None
        else {
            "function": one.place.function,
            "file": one.place.file,
            "line": one.place.line,
        },
    }
