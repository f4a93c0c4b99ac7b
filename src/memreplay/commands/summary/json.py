"""Writes a snapshot summary as JSON, schema memreplay.summary/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.summary.result import DeviceSummary, MeasureSummary, SnapshotSummary
from memreplay.render.strict_json import json_safe, to_json

SCHEMA = "memreplay.summary/1"


def render_summary_json(summary: SnapshotSummary, *, indent: int | None = 2) -> str:
    """One object; with `indent=None` on a single line, as newline-delimited JSON needs it."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": summary.file,
            "file_bytes": summary.file_bytes,
            "stream_bytes": summary.stream_bytes,
            "container": summary.container,
            "protocol": summary.protocol,
            "truncated": summary.truncated,
            "generation": summary.generation,
            "has_times": summary.has_times,
            "has_stacks": summary.has_stacks,
            "annotations": summary.annotations,
            "stacks": summary.stacks,
            "frames": summary.frames,
            "overflowed": summary.overflowed,
            "settings": json_safe(summary.settings),
            "settings_changed": json_safe(summary.settings_changed),
            "devices": [_device(device) for device in summary.devices],
        },
        indent=indent,
    )


def _device(device: DeviceSummary) -> dict[str, object]:
    return {
        "device": device.device,
        "first_event": device.first_event,
        "events": device.events,
        "trace_events": device.trace_events,
        "actions": dict(device.actions),
        "unknown_actions": device.unknown_actions,
        "first_us": device.first_us,
        "last_us": device.last_us,
        "events_with_stack": device.events_with_stack,
        "segments": device.segments,
        "reserved_bytes": device.reserved_bytes,
        "active_bytes": device.active_bytes,
        "requested_bytes": device.requested_bytes,
        "states": [
            {
                "state": state.state,
                "blocks": state.blocks,
                "size_bytes": state.size_bytes,
                "requested_bytes": state.requested_bytes,
            }
            for state in device.states
        ],
        "baseline_bytes": device.baseline_bytes,
        "peak_bytes": device.peak_bytes,
        "final_bytes": device.final_bytes,
        "unmatched_frees": device.unmatched_frees,
        "double_allocs": device.double_allocs,
        "reconciliation_bytes": device.reconciliation_bytes,
        "measures": [_measure(measure) for measure in device.measures],
        "pools": device.pools,
        "streams": device.streams,
        "blocks_proven": device.blocks_proven,
        "blocks_assumed": device.blocks_assumed,
        "pending_frees": device.pending_frees,
        "synthetic_events": device.synthetic_events,
        "trusted": device.trusted,
        "reasons": list(device.reasons),
    }


def _measure(measure: MeasureSummary) -> dict[str, object]:
    return {
        "measure": measure.measure,
        "exactness": measure.exactness,
        "reasons": list(measure.reasons),
        "start_bytes": measure.start_bytes,
        "peak_bytes": measure.peak_bytes,
        "event_index": measure.event_index,
        "time_us": measure.time_us,
        "minimum_bytes": measure.minimum_bytes,
        "mean_bytes": measure.mean_bytes,
        "final_bytes": measure.final_bytes,
        "reconciliation_bytes": measure.reconciliation_bytes,
    }
