"""Writes fragmentation as JSON, schema memreplay.fragmentation/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.fragmentation.result import (
    DeviceFragmentation,
    FragmentationReport,
    MappedSegment,
    PoolShare,
    UnusedPoint,
)
from memreplay.render.mapped_json import pin_json, pool_json, sums_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.fragmentation/1"


def render_fragmentation_json(report: FragmentationReport) -> str:
    """One object: indented, but for one with a map, whose blocks would each take many lines."""
    mapped = any(device.map for device in report.devices)
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "by": report.by,
            "truncated": report.truncated,
            "missing": list(report.missing),
            "devices": [_device(device) for device in report.devices],
        },
        indent=None if mapped else 2,
    )


def _device(device: DeviceFragmentation) -> dict[str, object]:
    return {
        "device": device.device,
        "first_event": device.first_event,
        "events": device.events,
        "trace_events": device.trace_events,
        "start_us": device.start_us,
        "exactness": device.exactness,
        "trusted": device.trusted,
        "reasons": list(device.reasons),
        "points": [_point(point) for point in device.points],
        "mean_unused_bytes": device.mean_unused_bytes,
        "moment": device.moment,
        "event_index": device.event_index,
        "time_us": device.time_us,
        **sums_json(device.sums),
        "slack_bytes": device.slack_bytes,
        "scattered_share": device.scattered_share,
        "returned_bytes": device.returned_bytes,
        "returned_pending_bytes": device.returned_pending_bytes,
        "private_bytes": device.private_bytes,
        "private_pending_bytes": device.private_pending_bytes,
        "pinned_bytes": device.pinned_bytes,
        "outside_bytes": device.outside_bytes,
        "outside_count": device.outside_count,
        "pools": [_share(share) for share in device.shares],
        "pins": [pin_json(pin) for pin in device.pins],
        "pins_total": device.pins_total,
        "pins_rest_bytes": device.pins_rest_bytes,
        "pins_rest_count": device.pins_rest_count,
        "map": [_segment(segment) for segment in device.map],
        "map_total": device.map_total,
    }


def _point(point: UnusedPoint) -> dict[str, object]:
    return {
        "name": point.name,
        "event_index": point.event_index,
        "time_us": point.time_us,
        "reserved_bytes": point.reserved_bytes,
        "active_bytes": point.active_bytes,
        "unused_bytes": point.unused_bytes,
    }


def _share(share: PoolShare) -> dict[str, object]:
    return {
        "pool": pool_json(share.pool),
        "is_default": share.is_default,
        "stream": share.stream,
        "kind": share.kind,
        **sums_json(share.sums),
    }


def _segment(segment: MappedSegment) -> dict[str, object]:
    return {
        "address": segment.address,
        "pool": pool_json(segment.pool),
        "stream": segment.stream,
        "kind": segment.kind,
        "expandable": segment.expandable,
        **sums_json(segment.sums),
        "blocks": [
            {
                "address": block.address,
                "bytes": block.bytes,
                "requested_bytes": block.requested_bytes,
                "state": block.state,
                "label": block.label,
            }
            for block in segment.blocks
        ],
    }
