"""Tests of commands/dryrun/text.py."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from memreplay.commands.dryrun.result import DryDevice, DryProcess, DryrunReport, Unknown, ValueRead
from memreplay.commands.dryrun.text import dryrun_document, verdict_line
from memreplay.render.fit import cell_width
from memreplay.render.plain import render_plain
from tests.unit.commands.dryrun.reports import GIB, one_process, report, reports

# How the line begins, by the verdict and how the program ended.
BEGINNINGS = {
    ("fits", "ended"): r"fits(, as far as is known)?: [\d.]+ \w+ reserved at most of ",
    ("does_not_fit", "ended"): "does not fit: ",
    ("over_budget", "ended"): "over its budget: ",
    ("does_not_fit", "out_of_memory"): "does not fit: out of memory on ",
    ("not_known", "failed"): r"the program failed with exit code \d+, not for want of memory: ",
    ("not_known", "killed"): r"the program was killed by (SIG[A-Z0-9+]+|signal \d+)",
    ("not_known", "timed_out"): r"stopped after \d+ s \(--timeout\): ",
    ("not_known", "interrupted"): "stopped by (Ctrl-C|SIGHUP|SIGTERM): ",
    (
        "not_known",
        "ended",
    ): "not known: a process ended without saying what it took; what is known: ",
}


@given(reports())
def test_every_report_has_one_line_in_plain_words(made: DryrunReport) -> None:
    line = verdict_line(made)
    assert re.match(BEGINNINGS[made.verdict, made.outcome], line), line
    assert line.isprintable()
    assert "None" not in line.replace(made.budget or "", "")
    assert not re.search(r"-[\d.]+ \w*B", line.partition("budget")[0])  # no size below zero


@given(reports())
def test_nothing_of_a_program_reaches_the_terminal_as_it_is(made: DryrunReport) -> None:
    text = render_plain(dryrun_document(made), width=100)
    assert text.replace("\n", "").isprintable()
    text.encode()


def text(made: DryrunReport, width: int = 100) -> str:
    return render_plain(dryrun_document(made), width=width)


def words(made: DryrunReport) -> str:
    return " ".join(text(made).split())


def test_what_ran() -> None:
    assert text(report()).splitlines() == [
        "program   python 'my train.py'",
        "card      Tesla T4, 16.0 GiB, 1.0 GiB of it taken by CUDA itself (an estimate)",
        "snapshot  dryrun.pickle",
        "numbers   exact: PyTorch's own allocator, and nothing was left open",
    ]
    card = replace(report().card, count=8, context_bytes=0)
    found = text(report(card=card, settings="a:1", budget="PASS x", replaced=True))
    assert "card      8 x Tesla T4, 16.0 GiB\n" in found
    assert "settings  a:1\n" in found
    assert "budget    PASS x\n" in found
    assert "snapshot  dryrun.pickle (replaced)\n" in found


@pytest.mark.parametrize(
    "changes, line",
    [
        ({}, "fits: 3.0 GiB reserved at most of 15.0 GiB (T4), 12.0 GiB to spare"),
        (
            {"verdict": "does_not_fit", "spare_bytes": -2 * GIB},
            "does not fit: 3.0 GiB reserved at most of 15.0 GiB (T4), 2.0 GiB too much",
        ),
        ({"verdict": "over_budget", "budget": "FAIL x"}, "over its budget: FAIL x"),
        ({"outcome": "out_of_memory"}, "does not fit: out of memory on 16.0 GiB (T4)"),
        (
            {"outcome": "killed", "status": -signal.SIGTERM},
            "the program was killed by SIGTERM",
        ),
        (
            {
                "outcome": "killed",
                "status": -signal.SIGSEGV,
                "processes": (one_process(7, file=None, last_call="cudaMalloc"),),
            },
            "the program was killed by SIGSEGV; its last call: cudaMalloc",
        ),
        (
            {"outcome": "timed_out"},
            "stopped after 3 s (--timeout): 3.0 GiB reserved at most until then",
        ),
    ],
)
def test_verdicts(changes: dict[str, Any], line: str) -> None:
    assert verdict_line(report(**changes)) == line


def test_who_kills_without_a_word() -> None:
    line = verdict_line(report(outcome="killed", status=-signal.SIGKILL))
    assert line == (
        "the program was killed by SIGKILL (by the system, for want of this machine's own memory?)"
    )


READ = ValueRead("item", f"{os.getcwd()}/train.py", 5, "step", "", 1, False)


def test_what_is_not_known() -> None:
    made = report(reads=(READ,))
    assert verdict_line(made).startswith("fits: ")  # it may be of no consequence
    assert (
        "numbers values were read that were not computed: exact if no size depends on these item in"
        " step train.py:5"
    ) in words(made)
    many = tuple(replace(READ, operator="nonzero", sizes=True, line=i, count=4) for i in range(8))
    made = report(reads=(*many, replace(READ, file="/else/x.py", through="/a/b/c/d.py:9")))
    assert verdict_line(made).startswith("fits, as far as is known: ")
    found = words(made)
    assert "not exact: sizes came from values that were not computed: all were zeros" in found
    assert "nonzero in step train.py:4 (4 times) and 3 more places values were read" in found
    assert "item in step /else/x.py:5, by …/b/c/d.py:9" in found
    made = report(workspaces=(Unknown("cuDNN", 2000),))
    assert "not exact: workspaces of cuDNN are not counted (2,000 calls)" in words(made)
    made = report(unanswered=tuple(Unknown(f"cuda{i}Get", i + 1) for i in range(5)))
    assert (
        "functions without an answer were called: cuda0Get (1), cuda1Get (2), cuda2Get (3) and 2"
        " more"
    ) in words(made)


def test_a_read_of_no_place() -> None:
    made = report(reads=(replace(READ, file="", line=0, function=""),))
    assert "item" in words(made)
    assert ":0" not in words(made)


def process(rank: int | None, **changes: Any) -> DryProcess:
    device = DryDevice(rank or 0, (1 + (rank or 0)) * GIB, 0, 0, 0, 0, 0)
    one = one_process(70 + (rank or 0), device, rank=rank, file=f"x.rank{rank}.pickle")
    return replace(one, **changes)


def test_ranks() -> None:
    crashed = process(2, file=None, last_call="ncclAllReduce", devices=())
    made = report(processes=(process(0), process(1), crashed, process(None, pid=9)), shared=True)
    lines = text(made).splitlines()
    assert "snapshot  x.rank0.pickle and 2 more" in lines
    rows = [line.split() for line in lines if line.startswith(("rank", "process "))]
    assert ["rank", "1", "1", "2.0", "GiB", "13.0", "GiB", "x.rank1.pickle"] in rows
    assert ["rank", "2", "-", "-", "-", "no", "snapshot;", "last", "call:", "ncclAllReduce"] in rows
    assert ["process", "9", "0", "1.0", "GiB", "14.0", "GiB", "x.rankNone.pickle"] in rows
    found = " ".join(lines)
    assert (
        "several processes used one card: their peaks are added up, as if they were at one time"
        in found
    )
    assert "rank 2 ended without a snapshot; its last call of CUDA: ncclAllReduce" in found
    made = report(processes=tuple(process(i) for i in range(20)))
    assert "4 more (--format json has all)" in text(made)
    assert "rank 15 " in text(made)
    assert "rank 16 " not in text(made)


def test_what_processes_did_not_say() -> None:
    crashed = process(2, file=None, last_call="cudaMalloc", devices=())
    made = report(processes=(process(0), crashed), verdict="not_known", exact=False)
    assert verdict_line(made).startswith("not known: a process ended without saying what it took")
    assert "not exact: a process ended without saying what it took" in words(made)
    became = report(processes=(process(0, replaced=True), crashed), exact=False)
    assert "not exact: 2 processes ended without saying what they took" in words(became)
    assert "rank 0 had used the GPU before it became another program (exec)" in words(became)
    unwritten = report(processes=(process(0, file=None, not_written="No space left"),))
    assert "the snapshot of rank 0 could not be written: No space left" in words(unwritten)


def test_a_recording_that_has_not_all() -> None:
    device = DryDevice(0, 4 * GIB, 3 * GIB, 3 * GIB, GIB, 0, 0)
    found = words(report(processes=(process(0, devices=(device,)),)))
    assert "rank 0: the recording shows 1.0 GiB of the 3.0 GiB that were requested at most" in found


def test_more_cards_than_there_are() -> None:
    found = words(report(outcome="failed", status=1, verdict="not_known", cards_asked=4))
    assert "it asked for 4 cards: --gpus 4" in found
    assert "--gpus" not in words(report(cards_asked=4))


def test_snapshots_of_earlier_runs() -> None:
    found = words(report(older=("x.rank7.pickle", "x.rank8.pickle")))
    assert "x.rank7.pickle is of an earlier run, and so are 1 more" in found


def test_until_when_it_is_exact() -> None:
    assert "numbers exact until then: " in words(report(outcome="failed", status=1))


def test_a_signal_that_stopped_it() -> None:
    made = report(outcome="interrupted", stopped_by=signal.SIGTERM)
    assert verdict_line(made) == "stopped by SIGTERM: 3.0 GiB reserved at most until then"


def test_requests_that_failed() -> None:
    failed = process(0, devices=(DryDevice(0, GIB, 0, 0, 0, 2, 1),))
    found = words(report(processes=(failed,), shown="x.pickle", peak=()))
    assert "2 requests failed, and the program went on: memreplay oom x.pickle" in found
    assert "went on" not in words(report(processes=(failed,), outcome="out_of_memory"))


def test_a_program_that_recorded_by_itself() -> None:
    made = report(processes=(process(None, recorded_by_itself=True, dumped=("a\nb", "c")),))
    assert (
        r"process 70 recorded by itself: the snapshot has what it recorded; it wrote a\nb, c"
        in (words(made))
    )


def test_why_it_failed() -> None:
    made = report(outcome="failed", status=1, verdict="not_known", error="E: \x1b[1m")
    assert r"ended by  E: \x1b[1m" in text(made)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_it_fits_the_terminal(width: int) -> None:
    made = report(
        processes=tuple(process(i) for i in range(3)),
        reads=(READ,),
        workspaces=(Unknown("cuDNN", 1),),
        error="x" * 300,
        outcome="failed",
    )
    assert all(cell_width(line) <= width for line in text(made, width).splitlines())
