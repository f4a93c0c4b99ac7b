"""Writes a peak report as JSON, schema memreplay.peak/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.model import By, DevicePeak, Group, Part, PeakReport
from memreplay.reports.strict_json import to_json

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
        "trusted": peak.trusted,
        "reasons": list(peak.reasons),
        "groups_total": peak.groups_total,
        "rest_bytes": peak.rest_bytes,
        "rest_count": peak.rest_count,
        "groups": [_group(group) for group in peak.groups],
        "peaks": [
            {"bytes": one.bytes, "event_index": one.event_index, "time_us": one.time_us}
            for one in peak.peaks
        ],
    }
    if by in ("pool", "stream"):
        found[f"{by}s"] = [_part(part, by) for part in peak.parts]
    return found


def _part(part: Part, by: By) -> dict[str, object]:
    pool = None if part.pool is None else list(part.pool)
    return {
        by: pool if by == "pool" else part.stream,
        "bytes": part.bytes,
        "count": part.count,
        "start_bytes": part.start_bytes,
        "peak_bytes": part.peak_bytes,
        "event_index": part.peak_event,
        "final_bytes": part.final_bytes,
        "reserved_bytes": part.reserved_bytes,
        "reserved_peak_bytes": part.reserved_peak_bytes,
        "reserved_event_index": part.reserved_peak_event,
        "reserved_final_bytes": part.reserved_final_bytes,
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "bytes": group.bytes,
        "count": group.count,
        "share": group.share,
        "label": group.label,
        "user": list(group.user),
        "frames": [
            {"function": frame.function, "file": frame.file, "line": frame.line}
            for frame in group.frames
        ],
    }
