"""Tests of gating/markdown.py: tables stay tables, whatever the names contain."""

from __future__ import annotations

import re

from memreplay.gating.markdown import render_gate_markdown
from tests.unit.gating.gates import EVERY, HOSTILE, NOT_JUDGED, PASSED, PEAK, WHOLE, report


def test_summary_has_the_headline_and_tables() -> None:
    lines = render_gate_markdown(report(PEAK)).splitlines()
    assert lines[0] == "### memreplay gate failed"
    assert lines[2].startswith("**FAIL peak held 41.2 GiB &gt; 38 GiB (+3.4 GiB since base; ")
    assert "| FAIL | max-peak | peak held | 41.2 GiB | 38 GiB | +3.4 GiB |" in lines
    assert "| +3.1 GiB | Attention.forward model.py:212 |" in lines
    assert render_gate_markdown(PASSED).startswith("### memreplay gate passed\n\n**PASS peak held")


def test_unjudged_file_fails() -> None:
    lines = render_gate_markdown(report(NOT_JUDGED)).splitlines()
    words = "forbid-leaks couldn't be checked: 1 step is too few to distinguish a leak from warm-up"
    assert lines[0] == "### memreplay gate failed"
    assert lines[2] == f"**FAIL {words}**"
    assert "| FAIL | forbid-leaks | device 0 | not judged | none |  |" in lines


def rows(text: str) -> list[list[str]]:
    return [
        re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")
    ]


def test_tables_are_well_formed() -> None:
    for found in (WHOLE, HOSTILE, report(*EVERY)):
        for row in rows(render_gate_markdown(found)):
            assert len(row) in (2, 6), row


def test_text_is_unchanged() -> None:
    text = render_gate_markdown(HOSTILE)
    assert "<b>" not in text
    text = re.sub("`[^`]*`", "", text)  # text that may be a link becomes code
    assert "@all" not in text
    assert "](b)" not in text.replace(r"\](b)", "")
