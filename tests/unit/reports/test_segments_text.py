"""Tests of reports/segments_text.py."""

from __future__ import annotations

import memreplay as mr
from memreplay.analysis.segments import segments_report
from memreplay.reports.plain import render_plain
from memreplay.reports.segments_text import segments_document
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.analysis.test_segments import builder


def text(made: SnapshotBuilder, top: int = 20, width: int = 80) -> str:
    report = segments_report(mr.open(build.dump(made.build())), top=top)
    return render_plain(segments_document(report), width=width)


def test_text() -> None:
    lines = text(builder()).splitlines()
    assert "device 0: peak 26.0 MiB reserved at event 1" in lines
    assert "start    4.0 MiB in 1 segment" in lines
    assert "changes  segment_alloc 2, segment_free 1" in lines
    assert any("+20.0 MiB" in line and "train" in line for line in lines)
    assert any("-20.0 MiB" in line and "free" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_what_is_not_shown_is_said() -> None:
    assert "note: the 1 largest of 3 changes (--top 0 shows all)" in text(builder(), top=1)


def test_nothing_to_show() -> None:
    assert "neither events nor segments" in text(SnapshotBuilder())


def test_what_autograd_asked_for_is_said() -> None:
    made = SnapshotBuilder()
    native = "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)"
    made.event("segment_alloc", 0x10000000, 20 << 20, frames=[(native, "??", 0)])
    assert any(line.endswith("BmmBackward0 (autograd)") for line in text(made).splitlines())
