"""Tests of diff's JSON for two folders, including its JSON schema."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.diff.ranks_result import RanksReport
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import When
from tests.unit.commands.diff.test_ranks_text import GIB, RANKS, REPORT, rank, report_of
from tests.unit.render.schemas import check_against


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        report_of(rank(0, 0, 0)),
        replace(
            REPORT,
            moment=When("annotation", name="a", edge="end"),
            by="file",
            filters=Filters(min_bytes=1),
            only_base=(1,),
            only_new=(2,),
            not_read=(3,),
            unranked_files=("x\udcff.pkl",),
            detail_rank=None,
            detail=None,
        ),
    ],
)
def test_json_matches_the_schema(report: RanksReport) -> None:
    found = json.loads(render_json(report))
    check_against("diff_ranks-1.json", found)
    if found["detail"] is not None:
        check_against("diff-1.json", found["detail"])


def test_json_has_the_reports_numbers() -> None:
    found = json.loads(render_json(REPORT))
    assert found["schema"] == "memreplay.diff_ranks/1"
    assert [one["rank"] for one in found["ranks"]] == [one.rank for one in RANKS]
    for one in found["ranks"]:
        assert one["change_bytes"] == one["new_bytes"] - one["base_bytes"]
        assert (one["base_bytes"], one["new_bytes"]) == (one["base"]["bytes"], one["new"]["bytes"])
    assert found["new"] == {
        "min_bytes": 18 * GIB,
        "min_rank": 2,
        "median_bytes": 28 * GIB,
        "max_bytes": 40 * GIB,
        "max_rank": 0,
        "sum_bytes": 114 * GIB,
        "imbalance": 40 / 28,
    }
    assert found["change"]["sum_bytes"] == 4 * GIB
    assert (found["detail_rank"], found["detail"]["schema"]) == (1, "memreplay.diff/1")
