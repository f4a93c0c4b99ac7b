"""Tests of the segments' JSON, including its JSON schema."""

from __future__ import annotations

import json

import memreplay as mr
from memreplay.commands.fragmentation.segments_find import segments_report
from memreplay.render.record_json import render_json
from tests import allocator_strategies, build
from tests.unit.render.schemas import check_against


def test_json_matches_the_schema_and_the_report() -> None:
    made = allocator_strategies.record(3, settings="expandable", steps=200)
    report = segments_report(mr.open(build.dump(made.snapshot)), top=1)
    result = json.loads(render_json(report))
    actions = result["devices"][0].pop("actions")
    assert set(actions) <= {"segment_alloc", "segment_free", "segment_map", "segment_unmap"}
    result["devices"][0]["actions"] = {}
    changes = result["devices"][0]["changes"]
    assert len({len(column) for column in changes.values()}) == 1
    assert len(changes["bytes"]) == sum(actions.values()) > 1
    assert any(pool is not None for pool in changes["pool"])
    check_against("segments-1.json", result)
