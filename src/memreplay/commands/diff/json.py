"""Writes a diff of two snapshots as JSON, schema memreplay.diff/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.analysis.comparing.records import DiffRow, Side
from memreplay.commands.diff.result import DeviceDiff, DiffReport
from memreplay.render.filters import filters_json
from memreplay.render.holders_json import code_json
from memreplay.render.moment_json import moment_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.diff/1"


def render_diff_json(report: DiffReport) -> str:
    """One indented object."""
    return to_json(diff_json(report), indent=2)


def diff_json(report: DiffReport) -> dict[str, object]:
    """The object. The keys are written out here: they are a contract, not the model's."""
    return {
        "schema": SCHEMA,
        "base_file": report.base_file,
        "new_file": report.new_file,
        "measure": report.measure,
        "by": report.by,
        "moment": moment_json(report.when),
        "exact": report.exact,
        "filters": filters_json(report.filters),
        "truncated": report.truncated,
        "ranges_differ": report.ranges is not None,
        "only_base": list(report.only_base),
        "only_new": list(report.only_new),
        "devices": [_device(device) for device in report.devices],
    }


def _device(found: DeviceDiff) -> dict[str, object]:
    return {
        "device": found.device,
        "base_device": found.base_device,
        "measure": found.measure,
        "base_bytes": found.base.bytes,
        "new_bytes": found.new.bytes,
        "change_bytes": found.change_bytes,
        "base": _side(found.base),
        "new": _side(found.new),
        "trusted": found.trusted,
        "rows_total": found.rows_total,
        "rest_change_bytes": found.rest_change_bytes,
        "statuses": dict(found.statuses),
        "rows": [_row(row) for row in found.rows],
    }


def _side(side: Side) -> dict[str, object]:
    return {
        "bytes": side.bytes,
        "count": side.count,
        "event_index": side.event_index,
        "time_us": side.time_us,
        "exactness": side.exactness,
        "trusted": side.trusted,
        "reasons": list(side.reasons),
    }


def _row(row: DiffRow) -> dict[str, object]:
    return {
        **code_json(row),
        "status": row.status,
        "base_bytes": row.base_bytes,
        "new_bytes": row.new_bytes,
        "change_bytes": row.change_bytes,
        "base_count": row.base_count,
        "new_count": row.new_count,
        "base_groups": row.base_groups,
        "new_groups": row.new_groups,
        "below": row.below,
    }
