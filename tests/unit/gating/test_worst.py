"""If there are many files, only the worst are shown, and the others are summarized."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.gating.github import render_gate_github
from memreplay.gating.markdown import render_gate_markdown
from memreplay.gating.reporting import gate_report
from memreplay.gating.result import GatedFile, GateReport
from memreplay.gating.text import gate_document
from memreplay.gating.worst import rest_text, rows_of, worst_files
from memreplay.render.plain import render_plain
from tests.unit.gating.gates import GIB, KEPT, PEAK, TRUST, TRUSTED, gated, unreadable


def high(name: str, gib: int) -> GatedFile:
    limits = PEAK if gib > 38 else replace(PEAK, outcome="passed", causes=())
    return gated(name, None, (replace(limits, actual_bytes=gib * GIB),))


FILES = (
    high("a", 30),
    high("b", 50),
    unreadable("c", "no such file"),
    high("d", 40),
    gated("e", None, (KEPT, TRUST)),
    unreadable("f", "permission denied"),
    high("g", 90),
    high("h", 20),
)


REPORT = gate_report(FILES)


def names(report: GateReport, most: int = 0) -> str:
    return "".join(one.file for one in worst_files(report, most))


def test_few_files_are_all_shown_in_order() -> None:
    assert names(REPORT) == names(REPORT, 8) == "abcdefgh"
    assert rest_text(REPORT, 8) == ()


def test_unreadable_and_worst_of_many_files_are_shown() -> None:
    assert names(REPORT, 7) == "cfegbdah"
    assert names(REPORT, 3) == "cfegb"
    assert names(REPORT, 1) == "ce"
    assert rest_text(REPORT, 3) == ("3 more files: 1 failed, 2 passed (--top 0 shows all)",)
    assert rest_text(gate_report((high("a", 30), high("b", 31))), 1) == ("1 more file passed",)


def test_files_without_a_finding_are_left_out() -> None:
    silent = gated("quiet", None, (TRUSTED,))
    assert rows_of(silent) == []
    report = gate_report((silent, high("b", 50)))
    assert names(report) == "b"
    assert rest_text(report) == ("1 more file passed",)


def test_ranks_without_a_file_are_listed() -> None:
    report = gate_report(FILES, missing_ranks=(3, 4, 5))
    assert rest_text(report) == ("no file of ranks 3 to 5",)


def test_every_human_format_shows_the_same_files() -> None:
    report = gate_report(FILES, missing_ranks=(3,))
    rest = "6 more files: 4 failed, 2 passed (--top 0 shows all)"
    text = render_plain(gate_document(report, 1), width=200)
    assert "\na\n" not in text
    assert text.endswith(f"note: {rest}; no file of rank 3")
    markdown = render_gate_markdown(report, 1)
    assert markdown.endswith(f"{rest}\n\nno file of rank 3\n")
    github = render_gate_github(report, 1)
    assert github.count("::error") == 2
    assert f"::notice title=memreplay gate::{rest}" in github
