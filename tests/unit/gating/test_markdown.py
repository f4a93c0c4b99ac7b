"""Tests of gating/markdown.py: tables that stay tables, whatever names say."""

from __future__ import annotations

import re

from memreplay.gating.markdown import render_gate_markdown
from tests.unit.gating.gates import EVERY, HOSTILE, NOT_JUDGED, PASSED, PEAK, WHOLE, report


def test_a_summary() -> None:
    lines = render_gate_markdown(report(PEAK)).splitlines()
    assert lines[0] == "### memreplay gate failed"
    assert lines[2].startswith("**FAIL peak held 41.2 GiB &gt; 38 GiB (+3.4 GiB since base; ")
    assert "| FAIL | max-peak | peak held | 41.2 GiB | 38 GiB | +3.4 GiB |" in lines
    assert "| +3.1 GiB | Attention.forward model.py:212 |" in lines
    assert render_gate_markdown(PASSED).startswith("### memreplay gate passed\n\n**PASS peak held")


def test_what_could_not_be_judged() -> None:
    lines = render_gate_markdown(report(NOT_JUDGED)).splitlines()
    words = "no-leaks could not be judged: 1 step is too few to tell a leak from a start-up"
    assert lines[0] == "### memreplay gate failed"
    assert lines[2] == f"**FAIL {words}**"
    assert "| FAIL | no-leaks | device 0 | not judged | none |  |" in lines


def rows(text: str) -> list[list[str]]:
    return [
        re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")
    ]


def test_tables_are_whole() -> None:
    for found in (WHOLE, HOSTILE, report(*EVERY)):
        for row in rows(render_gate_markdown(found)):
            assert len(row) in (2, 6), row


def test_text_is_as_it_is() -> None:
    text = render_gate_markdown(HOSTILE)
    assert "<b>" not in text
    text = re.sub("`[^`]*`", "", text)  # what could be a link is code
    assert "@all" not in text
    assert "](b)" not in text.replace(r"\](b)", "")
