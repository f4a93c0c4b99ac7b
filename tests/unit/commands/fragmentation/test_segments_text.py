"""Tests of commands/fragmentation/segments_text.py."""

from __future__ import annotations

import memreplay as mr
from memreplay.commands.fragmentation.segments_find import segments_report
from memreplay.commands.fragmentation.segments_text import segments_document
from memreplay.render.plain import render_plain
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.fragmentation.test_segments_find import builder


def text(made: SnapshotBuilder, top: int = 20, width: int = 80, *, listed: bool = False) -> str:
    report = segments_report(mr.open(build.dump(made.build())), top=top)
    return render_plain(segments_document(report, top=top, listed=listed), width=width)


def test_table_shows_the_code_that_requested_the_segments() -> None:
    lines = text(builder()).splitlines()
    assert [line.split() for line in lines[7:]] == [
        line.split()
        for line in (
            "at the peak  share  segments  requested by",
            "20.0 MiB  76.9%  1  train  /home/ana/train.py:7",
            "4.0 MiB  15.4%  1  (reserved before the recording)",
            "2.0 MiB  7.7%  1  (recorded without a stack)",
            "",
            "reserved  times  each  events  requested by",
            "20.0 MiB  1  20.0 MiB  0  train  /home/ana/train.py:7",
            "2.0 MiB  1  2.0 MiB  1  -",
            "",
            "released    times  each  events  released by",
            "20.0 MiB  1  20.0 MiB  2  -",
        )
    ]
    lines = text(builder(), listed=True).splitlines()
    assert "device 0: peak 26.0 MiB reserved at event 1" in lines
    assert "start    4.0 MiB in 1 segment" in lines
    assert "changes  segment_alloc 2, segment_free 1" in lines
    assert any("+20.0 MiB" in line and "train" in line for line in lines)
    assert any("-20.0 MiB" in line and "free" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_hidden_rows_are_counted() -> None:
    assert "note: the 1 largest of 3 changes (--top 0 shows all)" in text(
        builder(), top=1, listed=True
    )
    lines = text(builder(), top=1).splitlines()
    assert [line.split()[:4] for line in lines if "more (--top 0 shows all)" in line] == [
        ["6.0", "MiB", "23.1%", "2"],
        ["2.0", "MiB", "1", "2.0"],
    ]


def test_indistinguishable_rows_are_merged() -> None:
    native = "torch::autograd::generated::{}Backward0::apply(std::vector<at::Tensor>&&)"
    made = SnapshotBuilder()
    for i, (name, line) in enumerate((("Bmm", 1), ("Bmm", 2), ("Mul", 1), ("Bmm", 2))):
        frames = [("at::empty", "??", line), (native.format(name), "??", 0)]
        made.event("segment_alloc", 0x10000000 + (i << 24), (i + 1) << 20, frames=frames)
    lines = [" ".join(line.split()) for line in text(made).splitlines()]
    assert "7.0 MiB 3 1.0 to 4.0 MiB 0 to 3 BmmBackward0 (autograd)" in lines
    assert "3.0 MiB 1 3.0 MiB 2 MulBackward0 (autograd)" in lines


def test_narrow_terminal_keeps_the_call_site_and_drops_the_time() -> None:
    lines = text(builder(), width=50).splitlines()
    assert any(line.endswith("train  /home/ana/train.py:7") for line in lines[-7:])
    assert all(len(line) <= 50 for line in lines)


def test_report_says_that_there_is_nothing_to_show() -> None:
    assert "neither events nor segments" in text(SnapshotBuilder())


def test_autograd_requests_are_marked() -> None:
    made = SnapshotBuilder()
    native = "torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)"
    made.event("segment_alloc", 0x10000000, 20 << 20, frames=[(native, "??", 0)])
    assert any(line.endswith("BmmBackward0 (autograd)") for line in text(made).splitlines())
