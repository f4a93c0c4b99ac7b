"""Tests of memreplay gate's JSON, including its JSON schema."""

from __future__ import annotations

import json

import pytest

from memreplay.gating.result import GateReport
from memreplay.render.record_json import render_json
from tests.unit.gating.gates import HOSTILE, PASSED, WHOLE, told
from tests.unit.render.schemas import check_against


@pytest.mark.parametrize("report", [WHOLE, PASSED, HOSTILE])
def test_json_fits_its_schema(report: GateReport) -> None:
    text = render_json(told(report))
    assert text.isascii()
    found = json.loads(text)
    check_against("gate-1.json", found)
    assert found["passed"] is report.passed


def test_findings_have_their_fields() -> None:
    found = json.loads(render_json(told(WHOLE)))
    first = found["findings"][0]
    assert (first["rule"], first["device"]) == ("max-peak", 0)
    assert (first["limit_bytes"], first["actual_bytes"]) == (38 << 30, 412 * (1 << 30) // 10)
    assert (first["file"], first["line"]) == ("/job/gpt/model.py", 212)
    assert first["repository_file"] == "gpt/model.py"
    assert first["message"].startswith("peak held 41.2 GiB > 38 GiB (+3.4 GiB since base; ")
    assert found["headline"].startswith("FAIL a b/rank1.pkl: no such file; ")
    assert [len(found[key]) for key in ("findings", "kept", "not_judged")] == [10, 2, 3]
    assert [one["outcome"] for one in found["not_judged"]] == ["skipped", "skipped", "not_judged"]
    assert found["files"][1]["error"] == "no such file"
    assert found["files"][1]["exit_code"] == 3
    without = json.loads(render_json(WHOLE))
    assert without["findings"][0]["repository_file"] is None
