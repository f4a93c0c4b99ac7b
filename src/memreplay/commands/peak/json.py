"""Writes a peak report as JSON, schema memreplay.peak/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.analysis.steps.records import StepAt
from memreplay.commands.peak.result import DevicePeak, PeakReport
from memreplay.render.calltree import tree_json
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import group_json, part_json
from memreplay.render.strict_json import to_json
from memreplay.snapshot.model import By

SCHEMA = "memreplay.peak/1"


def render_peak_json(report: PeakReport) -> str:
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
            "devices": [_device(device, report.by) for device in report.devices],
        },
        indent=2,
    )


def _device(peak: DevicePeak, by: By) -> dict[str, object]:
    found: dict[str, object] = {
        "device": peak.device,
        "measure": peak.measure,
        "exactness": peak.exactness,
        "peak_bytes": peak.peak_bytes,
        "event_index": peak.event_index,
        "time_us": peak.time_us,
        "start_us": peak.start_us,
        "baseline_bytes": peak.baseline_bytes,
        "baseline_held_bytes": peak.baseline_held_bytes,
        "final_bytes": peak.final_bytes,
        "first_event": peak.first_event,
        "events": peak.events,
        "trace_events": peak.trace_events,
        "live_count": peak.live_count,
        "annotation": peak.annotations[-1] if peak.annotations else None,
        "step": None if peak.step is None else _step(peak.step),
        "categories": [
            {"category": one.name, "bytes": one.bytes, "count": one.live_count}
            for one in peak.categories
        ],
        "trusted": peak.trusted,
        "reasons": list(peak.reasons),
        "groups_total": peak.groups_total,
        "rest_bytes": peak.rest_bytes,
        "rest_count": peak.rest_count,
        "groups": [group_json(group) for group in peak.groups],
        "peaks": [
            {"bytes": one.bytes, "event_index": one.event_index, "time_us": one.time_us}
            for one in peak.peaks
        ],
    }
    if by in ("pool", "stream"):
        found[f"{by}s"] = [part_json(part, by) for part in peak.parts]
    if peak.tree is not None:
        found["tree"] = tree_json(peak.tree)
    return found


def _step(step: StepAt) -> dict[str, object]:
    return {
        "annotation": step.source.name if step.source.kind == "annotation" else None,
        "found": step.source.kind,
        "number": step.number,
        "of": step.of,
        "inside": step.inside,
    }
