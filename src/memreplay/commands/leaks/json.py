"""Writes what leaks as JSON, schema memreplay.leaks/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.leaks.result import DeviceLeaks, GrownGroup, LeaksReport
from memreplay.commands.steps.json import source_json
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import code_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.leaks/1"


def render_leaks_json(report: LeaksReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "measure": report.measure,
            "by": report.by,
            "pool": None if report.pool is None else list(report.pool),
            "stream": report.stream,
            "filters": filters_json(report.filters),
            "truncated": report.truncated,
            "older_than_steps": report.older_than,
            "min_bytes": report.min_bytes,
            "leaking": report.leaking,
            "judged": report.judged,
            "devices": [_device(device) for device in report.devices],
        },
        indent=2,
    )


def _device(device: DeviceLeaks) -> dict[str, object]:
    out = device.runs_out
    return {
        "device": device.device,
        "measure": device.measure,
        "exactness": device.exactness,
        "first_event": device.first_event,
        "events": device.events,
        "trusted": device.trusted,
        "reasons": list(device.reasons),
        "source": source_json(device.source),
        "judged": device.judged,
        "not_judged": None if device.judged else device.missing,
        "steps": device.steps,
        "warm_up_steps": device.warm_up,
        "first_step_event": device.first_step_event,
        "last_step_event": device.last_step_event,
        "step_us": device.step_us,
        "start_bytes": device.start_bytes,
        "warm_bytes": device.warm_bytes,
        "end_bytes": device.end_bytes,
        "whole_bytes_per_step": device.whole_rate,
        "leak_bytes_per_step": device.leak_rate,
        "leak_bytes": device.leak_bytes,
        "leaks_total": device.leaks_total,
        "leaks": [_grown(one) for one in device.leaks],
        "once_bytes": device.once_bytes,
        "once_total": device.once_total,
        "once": [_grown(one) for one in device.once],
        "old_count": device.old_count,
        "old_bytes": device.old_bytes,
        "runs_out": None
        if out is None
        else {
            "total_bytes": out.total_bytes,
            "given": out.given,
            "peak_bytes": out.peak_bytes,
            "steps": out.steps,
            "after_us": out.us,
        },
    }


def _grown(one: GrownGroup) -> dict[str, object]:
    return {
        "bytes_per_step": one.rate,
        "bytes_per_step_error": one.rate_error,
        "odds": round(one.odds, 2),
        "growth_bytes": one.group.bytes,
        "start_bytes": one.start_bytes,
        "warm_bytes": one.warm_bytes,
        "end_bytes": one.end_bytes,
        "since_step": one.since,
        "rises": one.rises,
        "until_step": one.until,
        "stopped": one.stopped,
        "old_count": one.group.count,
        "old_bytes": one.old_bytes,
        **code_json(one.group),
    }
