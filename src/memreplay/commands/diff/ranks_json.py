"""Writes a diff of two folders as JSON, schema memreplay.diff_ranks/1 (docs/json.md)."""

from __future__ import annotations

from memreplay.commands.diff.json import diff_json
from memreplay.commands.diff.ranks_result import RankDiff, RankSide, RanksReport, Spread
from memreplay.render.filters import filters_json
from memreplay.render.moment_json import moment_json
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.diff_ranks/1"


def render_ranks_json(report: RanksReport) -> str:
    """One indented object. The keys are written out here: they are a contract, not the model's."""
    return to_json(
        {
            "schema": SCHEMA,
            "base_folder": report.base_folder,
            "new_folder": report.new_folder,
            "measure": report.measure,
            "by": report.by,
            "moment": moment_json(report.when),
            "exact": report.exact,
            "filters": filters_json(report.filters),
            "only_base": list(report.only_base),
            "only_new": list(report.only_new),
            "not_read": list(report.not_read),
            "unranked_files": list(report.unranked),
            "base": {**_spread(report.base), "imbalance": report.base.imbalance},
            "new": {**_spread(report.new), "imbalance": report.new.imbalance},
            "change": _spread(report.change),
            "ranks": [_rank(one) for one in report.ranks],
            "detail_rank": report.detail_rank,
            "detail": None if report.detail is None else diff_json(report.detail),
        },
        indent=2,
    )


def _spread(spread: Spread) -> dict[str, object]:
    return {
        "min_bytes": spread.min_bytes,
        "min_rank": spread.min_rank,
        "median_bytes": spread.median_bytes,
        "max_bytes": spread.max_bytes,
        "max_rank": spread.max_rank,
        "sum_bytes": spread.sum_bytes,
    }


def _rank(one: RankDiff) -> dict[str, object]:
    return {
        "rank": one.rank,
        "device": one.new.device,
        "other_devices": list(one.other_devices),
        "base_bytes": one.base.bytes,
        "new_bytes": one.new.bytes,
        "change_bytes": one.change_bytes,
        "base": _side(one.base),
        "new": _side(one.new),
        "trusted": one.trusted,
    }


def _side(side: RankSide) -> dict[str, object]:
    return {
        "file": side.file,
        "device": side.device,
        "bytes": side.bytes,
        "event_index": side.event_index,
        "time_us": side.time_us,
        "exactness": side.exactness,
        "trusted": side.trusted,
        "reasons": list(side.reasons),
    }
