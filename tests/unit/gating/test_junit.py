"""Tests of gating/junit.py: the XML fits the schema of Jenkins' xUnit plugin."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from memreplay.gating.junit import render_gate_junit
from memreplay.gating.result import Cause, GateReport
from tests.conftest import ROOT
from tests.unit.gating.gates import HOSTILE, PASSED, WHOLE


@pytest.mark.parametrize("report", [WHOLE, PASSED, HOSTILE])
def test_xml_fits_its_schema(report: GateReport) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(str(ROOT / "tests" / "schemas" / "junit-10.xsd"))
    schema.validate(render_gate_junit(report))
    with pytest.raises(xmlschema.XMLSchemaException):
        schema.validate(render_gate_junit(report).replace("testcase", "case"))


def test_counts_match_the_outcomes() -> None:
    root = ElementTree.fromstring(render_gate_junit(WHOLE))
    counts = {key: root.get(key) for key in ("tests", "failures", "errors")}
    assert counts == {"tests": "16", "failures": "10", "errors": "2"}
    first, second = root
    assert (first.get("failures"), first.get("skipped"), second.get("errors")) == ("10", "2", "1")
    assert first.get("errors") == "1"
    (error,) = first.iter("error")
    assert error.get("type") == "not_judged"
    assert (error.get("message") or "").startswith(
        "forbid-leaks couldn't be checked: 1 step is too few"
    )
    failure = first.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("peak held 41.2 GiB > 38 GiB (")
    assert failure.text == (
        "Attention.forward /job/gpt/model.py:212\n(allocated before the recording)"
    )
    names = [case.get("name") for case in first.iter("testcase")]
    assert names[:3] == [
        "max-peak (held)",
        "max-peak (held)",
        "attention grows: max-growth (held of attention in ProfilerStep)",
    ]


def test_call_site_without_a_line_has_only_its_file() -> None:
    cause = Cause("f a.py", 1, function="f", file="/job/a.py")
    failed = next(one for one in WHOLE.files[0].findings if one.failed)
    report = replace(
        WHOLE, files=(replace(WHOLE.files[0], findings=(replace(failed, causes=(cause,)),)),)
    )
    (failure,) = ElementTree.fromstring(render_gate_junit(report)).iter("failure")
    assert failure.text == "f /job/a.py"


def test_names_are_escaped() -> None:
    text = render_gate_junit(HOSTILE)
    text.encode("utf-8")
    root = ElementTree.fromstring(text)
    assert (root[0].get("name") or "").startswith(
        "x\\n::error::pwned\\r,:%41\\x1b[31m<b>|`*_[a](b)"
    )
