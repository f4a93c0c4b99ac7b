"""Writes the segments over time as JSON, schema memreplay.segments/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.segments.result import ChangeGroup, DeviceSegments, SegmentsReport
from memreplay.render.holders_json import frame_json, group_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.segments/1"
_NO_TIME = -(2**63)


def render_segments_json(report: SegmentsReport) -> str:
    """One indented object; the changes are columns: arrays of the same length."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "truncated": report.truncated,
            "devices": [_device(device, report) for device in report.devices],
        },
        indent=None,
    )


def _device(device: DeviceSegments, report: SegmentsReport) -> dict[str, object]:
    changes = device.changes
    pools = {i: list(pool) for i, pool in report.pools.items()}
    return {
        "device": device.device,
        "first_event": device.first_event,
        "events": device.events,
        "start_us": device.start_us,
        "start_segments": device.start_segments,
        "start_bytes": device.start_bytes,
        "peak_bytes": device.peak_bytes,
        "event_index": device.event_index,
        "final_bytes": device.final_bytes,
        "actions": dict(device.actions),
        "exactness": device.exactness,
        "trusted": device.trusted,
        "reasons": list(device.reasons),
        "at_peak": [group_json(group) for group in device.at_peak],
        "taken": [_group(group) for group in device.taken],
        "given_back": [_group(group) for group in device.given_back],
        "changes": {
            "event_index": changes.event.tolist(),
            "time_us": [None if t == _NO_TIME else t for t in changes.time_us.tolist()],
            "action": [report.actions[code] for code in changes.action.tolist()],
            "address": changes.address.tolist(),
            "bytes": changes.bytes.tolist(),
            "reserved_bytes": changes.reserved.tolist(),
            "stream": changes.stream.tolist(),
            "pool": [pools.get(i) for i in changes.pool.tolist()],
        },
    }


def _group(group: ChangeGroup) -> dict[str, object]:
    return {
        "bytes": group.bytes,
        "count": group.count,
        "least_bytes": group.least_bytes,
        "most_bytes": group.most_bytes,
        "first_event": group.first_event,
        "last_event": group.last_event,
        "place": None if group.place is None else frame_json(group.place),
        "is_user": group.is_user,
        "frames": [frame_json(frame) for frame in group.frames],
    }
