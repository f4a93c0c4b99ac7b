"""Tests of gating/github.py: output contains only annotations, whatever the names contain."""

from __future__ import annotations

import re
from urllib.parse import unquote

from memreplay.gating.github import render_gate_github
from tests.unit.gating.gates import (
    HOSTILE,
    NOT_JUDGED,
    PASSED,
    PEAK,
    SKIPPED,
    WHOLE,
    report,
    told,
)

COMMAND = re.compile(r"::(error|warning|notice) ((?:[a-z]+=[^,:]*)(?:,[a-z]+=[^,:]*)*)::(.*)")


def test_annotation_is_on_the_line_that_grew() -> None:
    assert render_gate_github(told(report(PEAK))) == (
        "::error file=gpt/model.py,line=212,title=memreplay gate%3A max-peak::"
        "peak held 41.2 GiB > 38 GiB"
        " (+3.4 GiB since base; +3.1 GiB in Attention.forward model.py:212)"
    )
    line = render_gate_github(report(PEAK))
    assert line.startswith("::error title=memreplay gate%3A max-peak::peak held")


def test_passing_gate_is_a_notice() -> None:
    assert render_gate_github(PASSED) == (
        "::notice title=memreplay gate::PASS peak held 41.2 GiB <= 50 GiB (+3.4 GiB since base)"
    )
    lines = render_gate_github(report(SKIPPED)).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::notice", "::notice"]


def test_unjudged_file_is_an_error() -> None:
    assert render_gate_github(report(NOT_JUDGED)) == (
        "::error title=memreplay gate%3A forbid-leaks couldn't be checked::"
        "forbid-leaks couldn't be checked: 1 step is too few to distinguish a leak from warm-up"
    )


def test_every_line_is_one_command() -> None:
    for found in (WHOLE, HOSTILE):
        for line in render_gate_github(told(found, lambda path: path)).splitlines():
            assert COMMAND.fullmatch(line), line


def test_names_are_escaped() -> None:
    first = render_gate_github(told(HOSTILE, lambda path: path)).splitlines()[0]
    match = COMMAND.fullmatch(first)
    assert match is not None
    properties = dict(part.split("=", 1) for part in match[2].split(","))
    assert unquote(properties["file"]) == (
        "/job/x\\n::error::pwned\\r,:%41\\x1b[31m<b>|`*_[a](b)@all]]>&\"'\\ud800\\uffff"
        " --> -- ${{ x }} $(y).py"
    )
    assert properties["line"] == "7"
