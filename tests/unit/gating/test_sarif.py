"""Tests of gating/sarif.py: the output fits the schema of SARIF 2.1.0."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

from memreplay.gating.reporting import nowhere
from memreplay.gating.result import GateReport
from memreplay.gating.sarif import render_gate_sarif
from tests.conftest import ROOT
from tests.unit.gating.gates import HOSTILE, PASSED, WHOLE, in_repository, told

SCHEMA = json.loads(
    (ROOT / "tests" / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
)


def validate(document: object) -> None:
    jsonschema.Draft4Validator(SCHEMA).validate(document)


def rendered(report: GateReport, paths: Any = in_repository) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_gate_sarif(told(report, paths)))
    return found


@pytest.mark.parametrize("report", [WHOLE, PASSED, HOSTILE])
def test_sarif_fits_its_schema(report: GateReport) -> None:
    for paths in (in_repository, nowhere):
        validate(rendered(report, paths))
    wrong = rendered(report)
    wrong["runs"][0]["tool"]["driver"]["nmae"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        validate(wrong)


def test_results_have_locations_and_rules() -> None:
    (run,) = rendered(WHOLE)["runs"]
    assert [one["level"] for one in run["results"]] == ["error"] * 10 + ["note"] * 2 + ["error"] * 2
    assert run["results"][12]["ruleId"] == "memreplay/not-judged"
    first = run["results"][0]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "gpt/model.py"},
                "region": {"startLine": 212},
            }
        }
    ]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["locations"]
    assert first["ruleId"] == "memreplay/max-peak"
    last = run["results"][-1]["locations"][0]["physicalLocation"]
    assert last == {"artifactLocation": {"uri": "a%20b/rank1.pkl"}}
    (elsewhere,) = rendered(WHOLE, nowhere)["runs"]
    uri = elsewhere["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "file:///job/gpt/model.py"


def test_passing_gate_has_no_results() -> None:
    (run,) = rendered(PASSED)["runs"]
    assert run["results"] == []


def test_names_are_escaped() -> None:
    (run,) = rendered(HOSTILE, nowhere)["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    uri = place["artifactLocation"]["uri"]
    assert uri.isascii()
    assert uri.isprintable()
    parts = urlsplit(uri)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("file", "", "", "")
    assert unquote(parts.path).startswith("/job/x\n::error::pwned\r,:%")
