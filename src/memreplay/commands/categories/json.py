"""Writes what rules of categories caught as JSON, schema memreplay.categories/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.categories.result import CategoriesReport, Caught, DeviceCategories
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import group_json
from memreplay.render.moment_json import moment_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.categories/1"


def render_categories_json(report: CategoriesReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    return to_json(
        {
            "schema": SCHEMA,
            "file": report.file,
            "measure": report.measure,
            "moment": moment_json(report.when),
            "pool": None if report.pool is None else list(report.pool),
            "stream": report.stream,
            "filters": filters_json(report.filters),
            "truncated": report.truncated,
            "devices": [_device(device) for device in report.devices],
        },
        indent=2,
    )


def _device(found: DeviceCategories) -> dict[str, object]:
    return {
        "device": found.device,
        "measure": found.measure,
        "exactness": found.exactness,
        "event_index": found.event_index,
        "time_us": found.time_us,
        "start_us": found.start_us,
        "live_bytes": found.live_bytes,
        "live_count": found.live_count,
        "first_event": found.first_event,
        "events": found.events,
        "trace_events": found.trace_events,
        "trusted": found.trusted,
        "reasons": list(found.reasons),
        "rules": [_caught(one) for one in found.caught],
        "unknown_bytes": found.unknown_bytes,
        "unknown_count": found.unknown_count,
        "unknown_total": found.unknown_total,
        "unknown": [group_json(group) for group in found.unknown],
        "notes": list(found.notes),
    }


def _caught(one: Caught) -> dict[str, object]:
    return {
        "rule": one.rule,
        "category": one.category,
        "own": one.own,
        "bytes": one.bytes,
        "count": one.count,
        "share": one.share,
        "largest": None if one.largest is None else group_json(one.largest),
    }
