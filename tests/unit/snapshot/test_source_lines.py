"""Tests of snapshot/source_lines.py: source lines are shown, but not trusted."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.diff.find import diff_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.peak.text import peak_document
from memreplay.commands.report.find import overview
from memreplay.commands.report.text import report_document
from memreplay.recording import source_lines as recording
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import Frame
from memreplay.snapshot.source_lines import LONGEST, checked_lines
from tests import build
from tests.build import SnapshotBuilder

FRAMES = [("forward", "/w/model.py", 7), ("main", "/w/train.py", 9)]
LINES = {"/w/model.py": {"7": "y = self.up(x)"}, "/w/train.py": {"9": "loss = model(x)"}}


def opened(lines: Any = LINES, **more: Any) -> mr.Snapshot:
    made = SnapshotBuilder().alloc(0x1000, 64, frames=FRAMES, **more).free(0x1000, 64)
    made.oom(1 << 40, 1 << 30, frames=FRAMES)
    if lines is not None:
        made.top("memreplay", {"source_lines": lines})
    return mr.open(build.dump(made.build()))


def test_frames_have_their_source_line() -> None:
    inner, outer = opened().stack(1)
    assert (inner.source, outer.source) == ("y = self.up(x)", "loss = model(x)")
    inner, outer = opened(None).stack(1)
    assert not inner.source
    assert not outer.source


def test_reports_show_source_lines() -> None:
    with_it, without = (
        render_plain(report_document(overview(opened(lines), fold=True)), width=100)
        for lines in (LINES, None)
    )
    assert "forward  /w/model.py:7\n" in with_it
    assert "\n                          > y = self.up(x)\n" in with_it
    assert "by model.py:7 (y = self.up(x)) failed" in " ".join(with_it.split())
    # Callers have no source line.
    assert "loss = model(x)" not in with_it
    assert "self.up" not in without


def test_whole_stacks_show_every_source_line() -> None:
    document = peak_document(peak_report(opened()), all_frames=True)
    lines = [one.strip() for one in render_plain(document, width=100).splitlines()]
    at = lines.index("> y = self.up(x)")
    assert lines[at + 1 : at + 3] == ["main  /w/train.py:9", "> loss = model(x)"]


def test_json_has_source_lines_only_if_known() -> None:
    (device,) = json.loads(render_json(peak_report(opened())))["devices"]
    inner = {"function": "forward", "file": "/w/model.py", "line": 7, "source": "y = self.up(x)"}
    assert device["groups"][0]["frames"][0] == inner
    assert '"source"' not in render_json(peak_report(opened(None)))


def test_frames_are_equal_despite_different_source_lines() -> None:
    plain, told = Frame("f", "a.py", 3), Frame("f", "a.py", 3, "x = 1")
    assert plain == told
    assert hash(plain) == hash(told)
    assert Frame("f", "a.py", 4) != plain
    assert plain != ("f", "a.py", 3)
    other = {"/w/model.py": {"7": "y = self.down(x)"}}
    for base, new in ((None, LINES), (LINES, None), (other, LINES)):
        (device,) = diff_report(opened(base), opened(new)).devices
        assert {status: n for status, n in device.statuses.items() if n} == {"same": 1}
        (exactly,) = diff_report(opened(base), opened(new), exact=True).devices
        assert exactly.statuses["same"] == 1


def test_length_limit_matches_the_recorder() -> None:
    assert recording.LONGEST == LONGEST


# ---- lines that no recorder writes


@pytest.mark.parametrize(
    "found",
    [
        None,
        7,
        "text",
        [],
        [{"a.py": {"1": "x"}}],
        {"/w/model.py": None},
        {"/w/model.py": "y"},
        {"/w/model.py": ["y"] * 9},
        {"/w/model.py": {"7": 7}},
        {"/w/model.py": {"7": {"7": "y"}}},
        {"/w/model.py": {"07 ": "y", "-7": "y", "7.0": "y", "": "y", "٧": "y", "9" * 5000: "y"}},
        {"/w/model.py": {"7": " \n\t"}},
        {"/w/other.py": {"7": "y"}},
    ],
)
def test_malformed_lines_are_left_out(found: Any) -> None:
    snap = opened(found)
    assert not snap.stack(1)[0].source
    assert "> " not in render_plain(peak_document(peak_report(snap)), width=100)


def test_hostile_lines_are_escaped() -> None:
    text = "\x1b[2J\u202e##[error]x\ud800\n" + "é" * 100_000
    snap = opened({"/w/model.py": {"7": text}})
    (inner, _) = snap.stack(1)
    assert inner.source == text[:LONGEST]
    for document in (
        peak_document(peak_report(snap), all_frames=True),
        report_document(overview(snap, fold=True)),
    ):
        lines = render_plain(document, width=100).splitlines()
        assert all(line.isprintable() for line in lines)
        assert all(len(line) <= 100 for line in lines)
        assert any("> \\x1b[2J\\u202e#\\x23[error]x\\ud800\\n" in line for line in lines)
    assert json.loads(render_json(peak_report(snap)))


def test_more_lines_than_a_recorder_keeps_are_dropped() -> None:
    """Notes that are too large are dropped; the rest of the file is read."""
    lines = {f"/w/{i}.py": {str(line): "y" for line in range(1, 400)} for i in range(300)}
    snap = opened(lines)
    assert snap.source_lines == {}
    assert snap.stack(1)[0] == Frame("forward", "/w/model.py", 7)


VALUES = st.recursive(
    st.none() | st.integers(-(2**40), 2**40) | st.text(max_size=9) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(VALUES | st.dictionaries(st.text(max_size=4), st.dictionaries(st.text("0123x"), VALUES)))
def test_any_value_is_tolerated_as_source_lines(found: object) -> None:
    for file, lines in checked_lines(found).items():
        assert isinstance(file, str)
        for line, text in lines.items():
            assert isinstance(line, int)
            assert text == text.strip()


def test_selections_keep_source_lines() -> None:
    made = SnapshotBuilder()
    for i in range(1, 9):
        made.alloc(0x1000 * i, 64, frames=FRAMES)
    made.top("memreplay", {"source_lines": LINES})
    snap = mr.open(pickle.dumps(made.build()), start=3, stop=6)
    (device,) = peak_report(snap, Selection(top=1)).devices
    assert device.groups[0].frames[0].source == "y = self.up(x)"
