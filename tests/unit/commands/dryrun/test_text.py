"""Tests of commands/dryrun/text.py."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from memreplay.commands.dryrun.result import (
    DryChange,
    DryDevice,
    DryProcess,
    DryrunReport,
    Unknown,
    ValueRead,
)
from memreplay.commands.dryrun.text import (
    dryrun_document,
    verdict_line,
    verdict_text,
    warnings_of,
)
from memreplay.render.fit import cell_width
from memreplay.render.plain import render_plain
from tests.unit.commands.dryrun.reports import GIB, one_process, outside, report, reports

# The start of the line, by verdict and by how the program ended.
BEGINNINGS = {
    ("fits", "ended"): r"fits \S+(, as far as is known)?, [\d.]+ \w+ to spare ",
    ("does_not_fit", "ended"): r"does not fit \S+: [\d.]+ \w+ too much ",
    ("over_budget", "ended"): "over its budget: ",
    ("does_not_fit", "out_of_memory"): "does not fit: out of memory on ",
    ("not_known", "failed"): r"the program failed with exit code \d+, not for lack of memory: ",
    ("not_known", "killed"): r"the program was killed by (SIG[A-Z0-9+]+|signal \d+)",
    ("not_known", "timed_out"): r"stopped after \d+ s \(--timeout\): ",
    ("not_known", "interrupted"): "stopped by (Ctrl-C|SIGHUP|SIGTERM): ",
    (
        "not_known",
        "ended",
    ): "not known: a process ended without reporting its memory; known so far: ",
}


@given(reports())
def test_every_report_has_a_one_line_verdict(made: DryrunReport) -> None:
    line = verdict_line(made)
    assert re.match(BEGINNINGS[made.verdict, made.outcome], line), line
    assert line.isprintable()
    assert "None" not in line.replace(made.budget or "", "")
    assert not re.search(r"-[\d.]+ \w*B", line.partition("budget")[0])  # sizes are never negative


@given(reports())
def test_program_text_is_escaped(made: DryrunReport) -> None:
    text = render_plain(dryrun_document(made), width=100)
    assert text.replace("\n", "").isprintable()
    text.encode()


def text(made: DryrunReport, width: int = 100) -> str:
    return render_plain(dryrun_document(made), width=width)


def words(made: DryrunReport) -> str:
    return " ".join(text(made).split())


def test_changes_are_shown() -> None:
    changes = DryChange("fused=on", ("Adam",), 1), DryChange("checkpoint=h.*", ("N.h.0",), 2)
    assert (
        "changes   fused turned on in 1 optimizer: Adam\n"
        "          checkpointed 1 module: N.h.0 (2 calls)\n"
    ) in text(report(program_changes=changes))


def test_program_card_and_settings_are_shown() -> None:
    assert text(report()).splitlines() == [
        "program   python 'my train.py'",
        "card      Tesla T4, 16.0 GiB",
        "memory    3.0 GiB reserved at most",
        "outside   1.0 GiB (an estimate): CUDA 512.0 MiB, cuBLAS 512.0 MiB",
        "snapshot  dryrun.pickle",
        "numbers   exact: measured with PyTorch's own allocator",
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
        ({}, "fits T4, 12.0 GiB to spare (estimate: 1.0 GiB outside PyTorch)"),
        (
            {"verdict": "does_not_fit", "spare_bytes": -2 * GIB},
            "does not fit T4: 2.0 GiB too much (estimate: 1.0 GiB outside PyTorch)",
        ),
        ({"verdict": "over_budget", "budget": "FAIL x"}, "over its budget: FAIL x"),
        ({"outcome": "out_of_memory"}, "does not fit: out of memory on 16.0 GiB (T4)"),
        (
            {"outcome": "killed", "exit_code": -signal.SIGTERM},
            "the program was killed by SIGTERM",
        ),
        (
            {
                "outcome": "killed",
                "exit_code": -signal.SIGSEGV,
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
def test_verdict_line_has_the_reason(changes: dict[str, Any], line: str) -> None:
    assert verdict_line(report(**changes)) == line


def test_sigkill_suggests_that_the_machine_ran_out_of_memory() -> None:
    line = verdict_line(report(outcome="killed", exit_code=-signal.SIGKILL))
    assert line == ("the program was killed by SIGKILL (did this machine run out of memory?)")


READ = ValueRead(
    "item", f"{os.getcwd()}/train.py", 5, "step", "", 1, makes_sizes=False, random=False
)


def test_reads_of_gpu_values_are_shown() -> None:
    made = report(reads=(READ,))
    assert verdict_line(made).startswith("fits T4, ")  # possibly irrelevant
    assert (
        "numbers GPU values were read that a dry run doesn't know: exact unless sizes"
        " use them item in step train.py:5"
    ) in words(made)
    many = tuple(
        replace(READ, operator="nonzero", makes_sizes=True, line=i, count=4) for i in range(8)
    )
    made = report(reads=(*many, replace(READ, file="/else/x.py", through="/a/b/c/d.py:9")))
    assert verdict_line(made).startswith("fits T4, as far as is known, ")
    found = words(made)
    assert "not exact: sizes depend on GPU values that a dry run doesn't compute (zeros)" in found
    assert "nonzero in step train.py:4 (4 times) and 3 more places GPU values were read" in found
    assert "item in step /else/x.py:5, by …/b/c/d.py:9" in found
    assert "aren't computed" not in found
    assert "all values are zeros" not in words(report(no_values="no hook"))
    made = report(reads=(READ,), no_values="no hook")
    assert "all values are zeros: no hook" in words(made)
    random = (replace(READ, makes_sizes=True, random=True), replace(READ, random=True))
    made = report(reads=random)
    assert verdict_line(made).startswith("fits T4, as far as is known, ")
    assert (
        "numbers not exact: sizes depend on random numbers, which differ in each run item in step"
        " train.py:5 random numbers were read: exact unless sizes use them item in step train.py:5"
    ) in words(made)
    chosen = (replace(READ, makes_sizes=True, chosen=True), replace(READ, chosen=True))
    made = report(reads=chosen)
    assert verdict_line(made).startswith("fits T4, as far as is known, 12.0 GiB")
    assert (
        "not exact: sizes depend on choices by activations, spread evenly here (see --routing)"
        " item in step train.py:5 choices by activations were read, spread evenly"
    ) in words(made)
    assert "all the same here (see --routing)" in words(report(reads=chosen, routing="same"))
    made = report(workspaces=(Unknown("cuDNN", 2000),))
    assert "not exact: workspaces of cuDNN aren't counted (2,000 calls)" in words(made)
    made = report(unanswered=tuple(Unknown(f"cuda{i}Get", i + 1) for i in range(5)))
    assert (
        "unsupported functions were called: cuda0Get (1), cuda1Get (2), cuda2Get (3) and 2 more"
    ) in words(made)


def test_read_without_a_call_site_is_shown() -> None:
    made = report(reads=(replace(READ, file="", line=0, function=""),))
    assert "item" in words(made)
    assert ":0" not in words(made)


def process(rank: int | None, **changes: Any) -> DryProcess:
    device = DryDevice(rank or 0, outside(), (1 + (rank or 0)) * GIB, 0, 0, 0, 0, 0)
    one = one_process(70 + (rank or 0), device, rank=rank, file=f"x.rank{rank}.pickle")
    return replace(one, **changes)


def test_fullest_card_has_its_memory_outside_pytorch_listed() -> None:
    less = DryDevice(0, outside(GIB // 4), GIB, GIB, GIB, GIB, 0, 0)
    most = DryDevice(0, outside(), 3 * GIB, GIB, GIB, GIB, 0, 0)
    processes = one_process(1, less, rank=0), one_process(2, most, rank=1)
    found = text(report(processes=processes))
    assert "outside   1.0 GiB (an estimate): CUDA 512.0 MiB, cuBLAS 512.0 MiB\n" in found
    found = text(report(processes=processes, shared=True))
    assert "outside   1.0 GiB (an estimate)\n" in found


@pytest.mark.parametrize(
    "spare_mib, words",
    [
        (64, None),
        (63, "less than 64.0 MiB to spare: it may not fit"),
        (0, "less than 64.0 MiB to spare: it may not fit"),
        (-63, "less than 64.0 MiB missing: it may fit"),
        (-64, None),
    ],
)
def test_estimate_may_change_a_close_verdict(spare_mib: int, words: str | None) -> None:
    verdict = "fits" if spare_mib >= 0 else "does_not_fit"
    found = warnings_of(report(verdict=verdict, spare_bytes=spare_mib << 20))
    assert [one.partition(",")[0] for one in found] == ([words] if words else [])


def test_ranks_are_rows_of_a_table() -> None:
    crashed = process(2, file=None, last_call="ncclAllReduce", devices=())
    made = report(processes=(process(0), process(1), crashed, process(None, pid=9)), shared=True)
    lines = text(made).splitlines()
    assert "snapshot  x.rank0.pickle and 2 more" in lines
    rows = [line.split() for line in lines if line.startswith(("rank", "process "))]
    assert ["rank", "1", "1", "2.0", "GiB", "13.0", "GiB", "x.rank1.pickle"] in rows
    assert ["rank", "2", "-", "-", "-", "no", "snapshot;", "last", "call:", "ncclAllReduce"] in rows
    assert ["process", "9", "0", "1.0", "GiB", "14.0", "GiB", "x.rankNone.pickle"] in rows
    found = " ".join(lines)
    assert "several processes used one card: their peaks are added up, as if simultaneous" in found
    assert "rank 2 ended without a snapshot; its last CUDA call: ncclAllReduce" in found
    made = report(processes=tuple(process(i) for i in range(20)))
    assert "4 more (--format json has all)" in text(made)
    assert "rank 15 " in text(made)
    assert "rank 16 " not in text(made)


def test_missing_usage_is_explained() -> None:
    crashed = process(2, file=None, last_call="cudaMalloc", devices=())
    made = report(processes=(process(0), crashed), verdict="not_known", exact=False)
    assert verdict_line(made).startswith("not known: a process ended without reporting its memory")
    assert "not exact: a process ended without reporting its memory" in words(made)
    became = report(processes=(process(0, replaced=True), crashed), exact=False)
    assert "not exact: 2 processes ended without reporting their memory" in words(became)
    assert "rank 0 used the GPU before exec" in words(became)
    unwritten = report(processes=(process(0, file=None, not_written="No space left"),))
    assert "the snapshot of rank 0 couldn't be written: No space left" in words(unwritten)


def test_incomplete_recording_is_mentioned() -> None:
    device = DryDevice(0, outside(), 4 * GIB, 3 * GIB, 3 * GIB, GIB, 0, 0)
    found = words(report(processes=(process(0, devices=(device,)),)))
    assert "rank 0: the recording shows 1.0 GiB of the 3.0 GiB requested at the peak" in found
    own = process(0, devices=(device,), recorded_by_itself=True, dumped=("mine.pickle",))
    assert "the recording shows" not in words(report(processes=(own,)))


def test_message_says_how_to_get_more_cards() -> None:
    found = words(report(outcome="failed", exit_code=1, verdict="not_known", cards_asked=4))
    assert "it needs 4 cards: give --gpus 4" in found
    assert "--gpus" not in words(report(cards_asked=4))


def test_snapshots_of_earlier_runs_are_mentioned() -> None:
    found = words(report(older=("x.rank7.pickle", "x.rank8.pickle")))
    assert "x.rank7.pickle is from an earlier run, and so are 1 more" in found


def test_text_says_until_when_the_numbers_are_exact() -> None:
    assert "numbers exact until then: " in words(report(outcome="failed", exit_code=1))


def test_signal_that_stopped_the_program_is_named() -> None:
    made = report(outcome="interrupted", stopped_by=signal.SIGTERM)
    assert verdict_line(made) == "stopped by SIGTERM: 3.0 GiB reserved at most until then"


def test_failed_requests_are_mentioned() -> None:
    failed = process(0, devices=(DryDevice(0, outside(), GIB, 0, 0, 0, 2, 1),))
    found = words(report(processes=(failed,), shown="x.pickle", peaks=()))
    assert "2 requests failed and the program continued; see memreplay oom x.pickle" in found
    assert "program continued" not in words(report(processes=(failed,), outcome="out_of_memory"))


def test_programs_own_recording_is_mentioned() -> None:
    made = report(processes=(process(None, recorded_by_itself=True, dumped=("a\nb", "c")),))
    assert r"note: process 70 recorded itself, and wrote a\nb, c" in words(made)
    assert "its own recording" not in words(made)
    unwritten = report(processes=(process(None, recorded_by_itself=True),))
    assert "warning: process 70 started its own recording, which is what" in words(unwritten)
    made = report(processes=(process(None, recorded_by_itself=True, dumped=tuple("abcde")),))
    assert "recorded itself, and wrote c, d, e, and 2 more before" in words(made)


def test_error_of_the_program_is_shown() -> None:
    made = report(outcome="failed", exit_code=1, verdict="not_known", error="E: \x1b[1m")
    assert r"ended by  E: \x1b[1m" in text(made)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_lines_fit_the_terminal(width: int) -> None:
    made = report(
        processes=tuple(process(i) for i in range(3)),
        reads=(READ,),
        workspaces=(Unknown("cuDNN", 1),),
        error="x" * 300,
        outcome="failed",
    )
    assert all(cell_width(line) <= width for line in text(made, width).splitlines())


def test_ranks_that_ran_are_shown() -> None:
    processes = tuple(
        replace(one_process(rank), rank=rank, sizes_digest="ab"[rank // 4]) for rank in (0, 1, 4)
    )
    made = report(world_size=512, ranks_ran=(0, 1, 4), processes=processes)
    assert verdict_line(made).endswith(
        "12.0 GiB to spare on 3 of 512 ranks (estimate: 1.0 GiB outside PyTorch)"
    )
    assert verdict_text(made) == "fits on 3 of 512 ranks"
    assert verdict_text(report(world_size=1, ranks_ran=(0,))) == "fits"
    assert "ranks only 0, 1, 4 of 512 ran; same allocations: 0, 1; 4" in words(made)
    made = report(world_size=512, ranks_ran=(7,), processes=processes[:1])
    assert "ranks only 7 of 512 ran snapshot" in words(made)


def test_values_of_absent_ranks_are_shown_apart() -> None:
    assumed = replace(READ, assumed=True)
    made = report(reads=(replace(assumed, makes_sizes=True), assumed))
    assert verdict_line(made).startswith("fits T4, as far as is known, 12.0 GiB")
    assert (
        "numbers not exact: sizes depend on values of ranks that didn't run item in step train.py:5"
        " values of ranks that didn't run were read, assumed to be like these: exact if they are"
        " item in step train.py:5"
    ) in words(made)
