"""shown: the worst files of many, and what is said of the others."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.gating.github import render_gate_github
from memreplay.gating.markdown import render_gate_markdown
from memreplay.gating.result import GatedFile, GateReport
from memreplay.gating.shown import rest_words, rows_of, shown_files
from memreplay.gating.telling import gate_report
from memreplay.gating.text import gate_document
from memreplay.render.plain import render_plain
from tests.unit.gating.gates import GIB, KEPT, PEAK, TRUST, TRUSTED, gated, unreadable


def high(name: str, gib: int) -> GatedFile:
    limits = PEAK if gib > 38 else replace(PEAK, outcome="passed", causes=())
    return gated(name, None, (replace(limits, actual_bytes=gib * GIB),))


FILES = (
    high("a", 30),
    high("b", 50),
    unreadable("c", "there is no such file"),
    high("d", 40),
    gated("e", None, (KEPT, TRUST)),
    unreadable("f", "permission denied"),
    high("g", 90),
    high("h", 20),
)


REPORT = gate_report(FILES)


def names(report: GateReport, most: int = 0) -> str:
    return "".join(one.file for one in shown_files(report, most))


def test_few_are_all_shown_in_their_order() -> None:
    assert names(REPORT) == names(REPORT, 8) == "abcdefgh"
    assert rest_words(REPORT, 8) == ()


def test_of_many_what_cannot_be_read_and_the_worst() -> None:
    assert names(REPORT, 7) == "cfegbdah"
    assert names(REPORT, 3) == "cfegb"
    assert names(REPORT, 1) == "ce"
    assert rest_words(REPORT, 3) == ("3 more files: 1 failed, 2 passed (--top 0 shows all)",)
    assert rest_words(gate_report((high("a", 30), high("b", 31))), 1) == ("1 more file passed",)


def test_files_without_a_word_are_left_out() -> None:
    silent = gated("quiet", None, (TRUSTED,))
    assert rows_of(silent) == []
    report = gate_report((silent, high("b", 50)))
    assert names(report) == "b"
    assert rest_words(report) == ("1 more file passed",)


def test_ranks_that_there_is_no_file_of() -> None:
    report = gate_report(FILES, missing_ranks=(3, 4, 5))
    assert rest_words(report) == ("no file of ranks 3 to 5",)


def test_every_format_for_people_has_the_same() -> None:
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
