"""Writes the steps of a program as JSON, schema memreplay.steps/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.analysis.steps.records import StepSource
from memreplay.commands.steps.result import DeviceSteps, Outside, Step, StepsReport
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.steps/1"


def render_steps_json(report: StepsReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "measure": report.measure,
            "pool": None if report.pool is None else list(report.pool),
            "stream": report.stream,
            "truncated": report.truncated,
            "devices": [_device(device) for device in report.devices],
        },
        indent=2,
    )


def source_json(source: StepSource | None) -> dict[str, object] | None:
    """How the steps were found."""
    if source is None:
        return None
    return {
        "kind": source.kind,
        "name": source.name,
        "score": source.score,
        "taken_together": source.taken_together,
    }


def _device(device: DeviceSteps) -> dict[str, object]:
    steady = device.steady
    return {
        "device": device.device,
        "measure": device.measure,
        "exactness": device.exactness,
        "first_event": device.first_event,
        "events": device.events,
        "start_us": device.start_us,
        "start_bytes": device.start_bytes,
        "final_bytes": device.final_bytes,
        "trusted": device.trusted,
        "reasons": list(device.reasons),
        "source": source_json(device.source),
        "warm_up_steps": device.warm_up,
        "steady": None
        if steady is None
        else {
            "first": steady.first,
            "last": steady.last,
            "peak_bytes": steady.peak_bytes,
            "end_bytes": steady.end_bytes,
            "growth_bytes": steady.growth_bytes,
            "allocations": steady.allocations,
            "allocated_bytes": steady.allocated_bytes,
            "duration_us": steady.duration_us,
        },
        "odd": [
            {
                "index": one.number,
                "quantity": one.quantity,
                "value": one.value,
                "median": one.median,
            }
            for one in device.odd
        ],
        "before": _outside(device.before),
        "between": _outside(device.between),
        "after": _outside(device.after),
        "steps": [_step(step) for step in device.steps],
    }


def _step(step: Step) -> dict[str, object]:
    return {
        "index": step.number,
        "name": step.name,
        "first_event": step.first_event,
        "last_event": step.last_event,
        "start_us": step.start_us,
        "end_us": step.end_us,
        "peak_bytes": step.peak_bytes,
        "peak_event": step.peak_event,
        "end_bytes": step.end_bytes,
        "growth_bytes": step.growth_bytes,
        "allocations": step.allocations,
        "allocated_bytes": step.allocated_bytes,
    }


def _outside(part: Outside | None) -> dict[str, object] | None:
    if part is None:
        return None
    return {
        "events": part.events,
        "peak_bytes": part.peak_bytes,
        "peak_event": part.peak_event,
        "allocations": part.allocations,
        "allocated_bytes": part.allocated_bytes,
    }
