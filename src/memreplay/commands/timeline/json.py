"""Writes measures over events as JSON, schema memreplay.timeline/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.timeline.result import Layer, Marks, Series, TimelineReport
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import code_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.timeline/1"


def render_timeline_json(report: TimelineReport) -> str:
    """One object on one line; buckets are columns: arrays of the same length."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "x": report.x,
            "points": report.points,
            "by": report.by,
            "pool": None if report.pool is None else list(report.pool),
            "stream": report.stream,
            "filters": filters_json(report.filters),
            "truncated": report.truncated,
            "devices": [_series(series, report) for series in report.devices],
            "marks": [_marks(marks) for marks in report.marks],
        },
        indent=None,
    )


def _series(series: Series, report: TimelineReport) -> dict[str, object]:
    buckets = series.buckets
    found: dict[str, object] = {
        "device": series.device,
        "measure": series.measure,
        "exactness": series.exactness,
        "trusted": series.trusted,
        "reasons": list(series.reasons),
        "start_bytes": series.start_bytes,
        "peak_bytes": series.peak_bytes,
        "peak_event_index": series.event_index,
        "peak_us": series.time_us,
        "minimum_bytes": series.minimum_bytes,
        "final_bytes": series.final_bytes,
        "start_us": series.start_us,
        "stop_us": series.stop_us,
        "first_event": series.first_event,
        "events": series.events,
        "trace_events": series.trace_events,
        "event_index": buckets.event_index,
        "bucket_events": buckets.events,
        "time_us": buckets.time_us,
        "min_bytes": buckets.min_bytes,
        "max_bytes": buckets.max_bytes,
        "max_event_index": buckets.max_event,
    }
    if report.by is not None:
        found["groups_total"] = series.groups_total
        found["groups"] = [_layer(layer) for layer in series.layers]
        found["rest_bytes"] = list(series.rest_bytes)
    return found


def _layer(layer: Layer) -> dict[str, object]:
    return {
        **code_json(layer.group),
        "peak_bytes": layer.peak_bytes,
        "peak_event_index": layer.event_index,
        "bytes": layer.bytes,
    }


def _marks(marks: Marks) -> dict[str, object]:
    return {
        "device": marks.device,
        "annotations": [
            {
                "name": span.name,
                "start_us": span.start_us,
                "end_us": span.end_us,
                "start_event": span.start_event,
                "end_event": span.end_event,
            }
            for span in marks.annotations
        ],
        "ooms": [{"event_index": oom.event_index, "time_us": oom.time_us} for oom in marks.ooms],
    }
