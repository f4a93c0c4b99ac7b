"""Writes out-of-memory events as JSON, schema memreplay.oom/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.oom.result import DeviceOoms, LastState, Oom, OomReport
from memreplay.render.holders_json import code_json, group_json, part_json
from memreplay.render.mapped_json import pin_json, pool_json
from memreplay.render.strict_json import to_json
from memreplay.snapshot.model import By

SCHEMA = "memreplay.oom/1"


def render_oom_json(report: OomReport) -> str:
    """One indented object, with every event in full."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "by": report.by,
            "truncated": report.truncated,
            "devices": [_device(device, report.by) for device in report.devices],
        },
        indent=2,
    )


def _device(device: DeviceOoms, by: By) -> dict[str, object]:
    return {
        "device": device.device,
        "first_event": device.first_event,
        "events": device.events,
        "trace_events": device.trace_events,
        "start_us": device.start_us,
        "exactness": device.exactness,
        "trusted": device.trusted,
        "reasons": list(device.reasons),
        "total_bytes": device.total_bytes,
        "total_known": device.total_known,
        "ooms_total": device.ooms_total,
        "end": None if device.end is None else _end(device.end, by),
        "ooms": [_oom(oom, by) for oom in device.ooms],
    }


def _end(end: LastState, by: By) -> dict[str, object]:
    found: dict[str, object] = {
        "event_index": end.event_index,
        "time_us": end.time_us,
        "peak_event": end.peak_event,
        "peak_bytes": end.peak_bytes,
        "reserved_bytes": end.reserved_bytes,
        "active_bytes": end.active_bytes,
        "cached_bytes": end.cached_bytes,
        "largest_free_bytes": end.largest_free_bytes,
        "live_count": end.live_count,
        "groups_total": end.groups_total,
        "rest_bytes": end.rest_bytes,
        "rest_count": end.rest_count,
        "groups": [group_json(group) for group in end.groups],
    }
    if by in ("pool", "stream"):
        found[f"{by}s"] = [part_json(part, by) for part in end.parts]
    return found


def _oom(oom: Oom, by: By) -> dict[str, object]:
    found: dict[str, object] = {
        "number": oom.number,
        "event_index": oom.event_index,
        "time_us": oom.time_us,
        "cause": oom.cause,
        "request_bytes": oom.request_bytes,
        "needed_bytes": oom.needed_bytes,
        "missing_bytes": oom.missing_bytes,
        "pool": pool_json(oom.pool),
        "pool_assumed": oom.pool_assumed,
        "stream": oom.stream,
        "kind": oom.kind,
        "asked_by": code_json(oom.asked_by),
        "device_free_bytes": oom.device_free_bytes,
        "outside_bytes": oom.outside_bytes,
        "outside_known": oom.outside_known,
        "reserved_bytes": oom.reserved_bytes,
        "active_bytes": oom.active_bytes,
        "allocated_bytes": oom.allocated_bytes,
        "requested_bytes": oom.requested_bytes,
        "pending_bytes": oom.pending_bytes,
        "cached_bytes": oom.cached_bytes,
        "cached": [
            {"name": part.name, "bytes": part.bytes, "largest_bytes": part.largest_bytes}
            for part in oom.parts
        ],
        "remedies": [
            {"name": one.name, "bytes": one.bytes, "enough": one.enough} for one in oom.remedies
        ],
        "live_count": oom.live_count,
        "groups_total": oom.groups_total,
        "rest_bytes": oom.rest_bytes,
        "rest_count": oom.rest_count,
        "groups": [group_json(group) for group in oom.groups],
        "pinned_bytes": oom.pinned_bytes,
        "pins": [pin_json(pin) for pin in oom.pins],
        "pins_total": oom.pins_total,
        "pins_rest_bytes": oom.pins_rest_bytes,
        "pins_rest_count": oom.pins_rest_count,
    }
    if by in ("pool", "stream"):
        found[f"{by}s"] = [part_json(part, by) for part in oom.parts_live]
    return found
