"""Writes what was held at a moment as JSON, schema memreplay.at/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.analysis.moments.records import DeviceStages
from memreplay.commands.at.result import AtReport, DeviceAt, LiveAllocation
from memreplay.render.calltree import tree_json
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import code_json, frame_json, group_json, part_json
from memreplay.render.moment_json import moment_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.at/1"


def render_at_json(report: AtReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    of_annotations = (
        {} if report.stages is None else {"annotations": list(map(_stages, report.stages))}
    )
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
            "missing": list(report.missing),
            "devices": [_device(device, report) for device in report.devices],
            **of_annotations,
        },
        indent=2,
    )


def _stages(found: DeviceStages) -> dict[str, object]:
    return {
        "device": found.device,
        "measure": found.measure,
        "exactness": found.exactness,
        "trusted": found.trusted,
        "reasons": list(found.reasons),
        "peak_bytes": found.peak_bytes,
        "stages_total": found.stages_total,
        "stages": [
            {
                "name": one.name,
                "depth": one.depth,
                "start_us": one.start_us,
                "end_us": one.end_us,
                "start_event": one.start_event,
                "end_event": one.end_event,
                "start_bytes": one.start_bytes,
                "peak_bytes": one.peak_bytes,
                "peak_event_index": one.peak_event,
                "end_bytes": one.end_bytes,
            }
            for one in found.stages
        ],
    }


def _device(found: DeviceAt, report: AtReport) -> dict[str, object]:
    out: dict[str, object] = {
        "device": found.device,
        "measure": found.measure,
        "exactness": found.exactness,
        "moment": moment_json(found.when),
        "event_index": found.event_index,
        "time_us": found.time_us,
        "start_us": found.start_us,
        "live_bytes": found.live_bytes,
        "live_count": found.live_count,
        "peak_bytes": found.peak_bytes,
        "first_event": found.first_event,
        "events": found.events,
        "trace_events": found.trace_events,
        "trusted": found.trusted,
        "reasons": list(found.reasons),
        "groups_total": found.groups_total,
        "rest_bytes": found.rest_bytes,
        "rest_count": found.rest_count,
        "groups": [group_json(group) for group in found.groups],
    }
    if report.by in ("pool", "stream"):
        out[f"{report.by}s"] = [part_json(part, report.by) for part in found.parts]
    if report.listed:
        # A stack stands there once, however many allocations have it.
        stacks = {one.stack: one for one in found.allocations}
        at = {stack: place for place, stack in enumerate(stacks)}
        out["allocations"] = [_allocation(one, at[one.stack]) for one in found.allocations]
        out["stacks"] = [code_json(one) for one in stacks.values()]
    if found.found is not None:
        one = found.found
        row = _allocation(one.allocation, 0)
        del row["stack"]
        out["found"] = {
            "number": one.number,
            "total": one.total,
            **row,
            **code_json(one.allocation),
        }
    if found.tree is not None:
        out["tree"] = tree_json(found.tree)
    return out


def _allocation(one: LiveAllocation, stack: int) -> dict[str, object]:
    return {
        "address": one.address,
        "bytes": one.bytes,
        "alloc_event": one.alloc_event,
        "alloc_us": one.alloc_us,
        "age_events": one.age_events,
        "age_us": one.age_us,
        "free_event": one.free_event,
        "free_us": one.free_us,
        "freed_at": None if one.freed_at is None else frame_json(one.freed_at),
        "stream": one.stream,
        "pool": None if one.pool is None else list(one.pool),
        "label": one.label,
        "stack": stack,
    }
