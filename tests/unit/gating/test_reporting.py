"""Tests of gating/reporting.py: descriptions of findings."""

from __future__ import annotations

from memreplay.gating.messages import finding_text
from memreplay.gating.reporting import gate_report
from tests.unit.gating.gates import (
    EVERY,
    PEAK,
    TRUST,
    UNREADABLE,
    gated,
    in_repository,
    report,
)


def test_every_finding_is_listed_once() -> None:
    found = gate_report([gated("x.pkl", "base.json", EVERY), UNREADABLE], in_repository)
    (file, unreadable) = found.files
    assert {*found.findings, *found.kept, *found.not_judged} == set(file.findings)
    assert [one.message for one in file.findings] == [finding_text(one, file) for one in EVERY]
    assert {one.snapshot for one in file.findings} == {"x.pkl"}
    assert (found.passed, file.passed, unreadable.passed) == (False, False, False)
    assert gate_report(found.files, in_repository) == found


def test_location_is_that_of_the_first_cause_with_one() -> None:
    told = gate_report([gated("x.pkl", None, (PEAK,))], in_repository).findings[0]
    assert (told.function, told.line) == ("Attention.forward", 212)
    assert (told.file, told.repository_file) == ("/job/gpt/model.py", "gpt/model.py")
    assert told.change_bytes == (PEAK.actual_bytes or 0) - (PEAK.base_bytes or 0)
    (without,) = report(TRUST).findings
    assert (without.function, without.file, without.line) == (None, None, None)
    assert (without.repository_file, without.change_bytes) == (None, None)
