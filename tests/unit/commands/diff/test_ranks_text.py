"""Tests of commands/diff/ranks_text.py."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.analysis.comparing.spread import run_spread, spread_of
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.diff.ranks_find import rank_of_sides
from memreplay.commands.diff.ranks_result import RankDiff, RankSide, RanksReport
from memreplay.commands.diff.ranks_text import ranks_document
from memreplay.commands.diff.result import DiffReport
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import When
from tests.unit.commands.diff import test_text as test_diff_text

MIB, GIB = 1 << 20, 1 << 30


def rank(number: int, base: int, new: int) -> RankDiff:
    sides = [
        RankSide(
            file=f"/runs/{run}/rank{number}.pkl",
            device=number % 8,
            bytes=n,
            event_index=7,
            time_us=None,
            exactness="exact",
            trusted=True,
            reasons=(),
        )
        for run, n in (("a", base), ("b", new))
    ]
    return rank_of_sides(number, sides[0], sides[1])


def report_of(*ranks: RankDiff, detail: DiffReport | None = None) -> RanksReport:
    numbers = [one.rank for one in ranks]
    return RanksReport(
        base_folder="/runs/a",
        new_folder="/runs/b",
        measure="held",
        by="stack",
        moment=When("peak", 1),
        exact=False,
        base=run_spread(numbers, [one.base_bytes for one in ranks]),
        new=run_spread(numbers, [one.new_bytes for one in ranks]),
        change=spread_of(numbers, [one.change_bytes for one in ranks]),
        ranks=ranks,
        detail_rank=None if detail is None else 1,
        detail=detail,
    )


RANKS = (
    rank(0, 40 * GIB, 40 * GIB),
    rank(1, 30 * GIB, 36 * GIB),
    rank(2, 20 * GIB, 18 * GIB),
    rank(3, 20 * GIB, 20 * GIB),
)
REPORT = report_of(*RANKS, detail=test_diff_text.REPORT)


def lines(report: RanksReport, width: int = 100, top: int = 20) -> list[str]:
    return render_plain(ranks_document(report, top), width=width).splitlines()


def cells(report: RanksReport, width: int = 100, top: int = 20) -> list[str]:
    return [" ".join(line.split()) for line in lines(report, width, top)]


def test_report_has_the_expected_lines() -> None:
    text = cells(REPORT)
    assert text[:9] == [
        "/runs/a (base)",
        "",
        "/runs/b (new)",
        "",
        "4 ranks: highest peak 40.0 GiB -> 40.0 GiB held, 0 B",
        "measure held, exact",
        "grew most rank 1, 30.0 GiB -> 36.0 GiB, +6.0 GiB (+20.0%)",
        "shrank most rank 2, 20.0 GiB -> 18.0 GiB, -2.0 GiB (-10.0%)",
        "",
    ]
    assert text[9:21] == [
        "ranks base new change",
        "worst 40.0 GiB 40.0 GiB 0 B rank 0",
        "median 25.0 GiB 28.0 GiB +3.0 GiB median change 0 B",
        "lowest 20.0 GiB 18.0 GiB -2.0 GiB rank 2",
        "imbalance 1.60 1.43 worst by median",
        "sum 110.0 GiB 114.0 GiB +4.0 GiB",
        "",
        "rank device base new change",
        "0 0 40.0 GiB 40.0 GiB 0 B worst",
        "1 1 30.0 GiB 36.0 GiB +6.0 GiB +20.0% grew most",
        "3 3 20.0 GiB 20.0 GiB 0 B",
        "2 2 20.0 GiB 18.0 GiB -2.0 GiB -10.0% shrank most",
    ]
    assert "rank 1, device 0: peak 10.0 GiB -> 12.0 GiB held, +2.0 GiB (+20.0%)" in text
    assert "/runs/a.pkl (base)" in text


def test_highest_rank_may_differ_between_the_runs() -> None:
    text = cells(report_of(rank(0, 9 * GIB, 5 * GIB), rank(1, 5 * GIB, 8 * GIB)))
    assert "2 ranks: highest peak 9.0 GiB -> 8.0 GiB held, -1.0 GiB (-11.1%)" in text
    assert "worst 9.0 GiB 8.0 GiB -1.0 GiB rank 1 (base: rank 0)" in text
    assert "lowest 5.0 GiB 5.0 GiB 0 B rank 0 (base: rank 1)" in text


def test_top_keeps_a_row_for_the_rest() -> None:
    many = report_of(*(rank(i, GIB, GIB + i * MIB) for i in range(64)))
    text = cells(many, 80, 3)
    at = text.index("rank base new change")
    assert [line.split()[0] for line in text[at + 1 : at + 4]] == ["63", "62", "61"]
    assert text[at + 4] == "61 more ranks (--top 0 shows all)"
    assert len(cells(many, top=0)) == len(text) + 60


def test_report_says_that_there_are_no_changes_or_ranks() -> None:
    text = cells(report_of(rank(0, 0, 0), rank(1, 0, 0)))
    assert "2 ranks: highest peak 0 B -> 0 B held, 0 B" in text
    assert "change none on any rank" in text
    assert "imbalance - - worst by median" in text


def test_moment_and_filters_are_shown() -> None:
    text = cells(replace(REPORT, moment=When("end"), filters=Filters(min_bytes=MIB)))
    assert "4 ranks at the end: highest 40.0 GiB -> 40.0 GiB held, 0 B" in text
    assert "only 1.0 MiB or more" in text


def test_ranks_that_are_not_compared_are_listed() -> None:
    ranks = (replace(RANKS[0], other_devices=(5,)), *RANKS[1:])
    report = replace(
        report_of(*ranks),
        only_base=(4, 5, 6, 9),
        only_new=(8,),
        not_read=(7,),
        unranked_files=("/runs/a/x.pkl", "/runs/a/y.pkl", "/runs/b/z.pkl", "/runs/b/w\x1b.pkl"),
    )
    text = lines(report, 160)
    assert "note: ranks 4 to 6, 9 are only in /runs/a, so not compared" in text
    assert "note: rank 8 is only in /runs/b, so not compared" in text
    assert "warning: rank 7 couldn't be compared; see the errors" in text
    assert (
        "note: left out because the name has no rank: /runs/a/x.pkl, /runs/a/y.pkl,"
        " /runs/b/z.pkl and 1 more" in text
    )
    assert any("note: several devices in rank 0; only the one" in line for line in text)


def test_doubts_are_printed_once_with_their_ranks() -> None:
    def doubted(one: RankDiff, *reasons: str) -> RankDiff:
        new = replace(one.new, exactness="estimated", trusted=False, reasons=reasons)
        return replace(one, new=new)

    ranks = (RANKS[0], *(doubted(one, "no_segments") for one in RANKS[1:]))
    text = lines(report_of(*ranks), 300)
    assert "measure      held, exact except in ranks 1 to 3" in text
    assert sum("warning:" in line for line in text) == 1
    assert any(line.startswith("warning: new, ranks 1 to 3: the file has no") for line in text)
    text = lines(report_of(*(doubted(one, "no_segments") for one in RANKS)), 300)
    assert "measure      held, estimated" in text
    assert any(line.startswith("warning: new, all ranks: the file has no") for line in text)
    both = rank_of_sides(1, replace(ranks[1].new, file="/runs/a/rank1.pkl"), ranks[1].new)
    text = lines(report_of(RANKS[0], both, ranks[2]), 300)
    assert any(
        line.startswith("warning: base, rank 1; new, ranks 1, 2: the file has no") for line in text
    )
    text = lines(report_of(RANKS[0], both), 300)
    assert any(line.startswith("warning: base and new, rank 1: the file has") for line in text)
    assert any(line.endswith("  estimated") for line in text)


def test_different_devices_are_shown() -> None:
    other = replace(RANKS[1], base=replace(RANKS[1].base, device=7))
    assert any("7 -> 1" in line for line in lines(report_of(RANKS[0], other), 120))


@pytest.mark.parametrize("width", [60, 80, 160])
def test_lines_fit_the_width(width: int) -> None:
    many = report_of(*(rank(i, 40 * GIB, 41 * GIB + i * MIB) for i in range(1_000)))
    long = replace(many, base_folder="/" + "x" * 200, only_new=tuple(range(2_000, 3_000, 2)))
    assert all(len(line) <= width for line in lines(long, width, 0))
    assert all(len(line) <= width for line in lines(REPORT, width))
