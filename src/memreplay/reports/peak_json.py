"""Writes a peak report as JSON, schema memreplay.peak/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.model import DevicePeak, Group, PeakReport
from memreplay.reports.strict_json import to_json

SCHEMA = "memreplay.peak/1"


def render_peak_json(report: PeakReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "by": report.by,
            "truncated": report.truncated,
            "devices": [_device(device) for device in report.devices],
        },
        indent=2,
    )


def _device(peak: DevicePeak) -> dict[str, object]:
    return {
        "device": peak.device,
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
