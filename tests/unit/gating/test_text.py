"""Tests of gating/text.py."""

from __future__ import annotations

from memreplay.gating.text import gate_document
from memreplay.render.plain import render_plain
from tests.unit.gating.gates import HOSTILE, NOT_JUDGED, PEAK, WHOLE, report


def test_report_has_the_findings_and_the_causes() -> None:
    text = render_plain(gate_document(report(PEAK)), width=80)
    assert text.splitlines() == [
        "snap.pkl",
        "",
        "base.json  (base)",
        "",
        "      rule        actual   limit  since base  measured",
        "FAIL  max-peak  41.2 GiB  38 GiB    +3.4 GiB  peak held",
        "",
        "    change      now  max-peak: largest growth",
        "  +3.1 GiB  9.0 GiB  Attention.forward  /job/gpt/model.py:212",
        "+256.0 MiB  2.0 GiB  (allocated before the recording)",
    ]


def test_unjudged_file_fails_with_a_note() -> None:
    lines = render_plain(gate_document(report(NOT_JUDGED, base=None)), width=100).splitlines()
    assert lines[2:] == [
        "      rule              actual  limit    measured",
        "FAIL  forbid-leaks  not judged   none    device 0",
        "",
        (
            "note: forbid-leaks couldn't be checked: 1 step is too few to distinguish a leak from"
            " warm-up"
        ),
    ]


def test_report_fits_the_terminal() -> None:
    for found in (WHOLE, HOSTILE):
        for width in (60, 80, 160):
            lines = render_plain(gate_document(found), width=width).splitlines()
            assert all(line.isprintable() for line in lines)
            assert max(map(len, lines)) <= max(width, 100)
    text = render_plain(gate_document(WHOLE), width=100)
    for words in ("not judged", "ring buffer was full", "category rules", "no such file"):
        assert words in " ".join(text.split())
