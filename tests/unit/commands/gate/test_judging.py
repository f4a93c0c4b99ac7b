"""judging: a worker's tasks, with one snapshot or two."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.comparing.budgets import Budget
from memreplay.analysis.comparing.sides import SnapshotSide
from memreplay.commands.gate.judging import (
    ApartTask,
    Judged,
    JudgeTask,
    Judging,
    Member,
    close_bases,
    judge,
    tell_apart,
)
from memreplay.commands.shared.source import Reading
from memreplay.gating.find import Terms, gate_file
from tests.conftest import ROOT

RANKS = ROOT / "examples" / "fsdp_odd_ranks"
ODD, LIKE = str(RANKS / "rank5.pkl.gz"), str(RANKS / "rank4.pkl.gz")


def judging_of(*budgets: Budget, base: str | None = None, **more: Any) -> Judging:
    given = {"reading": Reading(), "terms": Terms()}
    return Judging(run=str(id(budgets)), budgets=budgets, base=base, **{**given, **more})


@pytest.fixture(autouse=True)
def nothing_kept() -> Any:
    yield
    close_bases()


def test_result_matches_a_gate_on_one_file() -> None:
    budgets = (Budget(max_peak=1 << 30), Budget(max_growth=0.01), Budget(forbid_oom=True))
    task = JudgeTask(ODD, judging_of(*budgets, base=LIKE))
    with mr.open(ODD) as snap, mr.open(LIKE) as base:
        expected = gate_file(snap, budgets, base=SnapshotSide(base))
    assert judge(task) == Judged(expected)
    assert judge(pickle.loads(pickle.dumps(task))) == Judged(expected)


def test_error_blames_the_file_or_its_base(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.pkl")
    found = judge(JudgeTask(gone, judging_of(Budget(forbid_oom=True))))
    assert (found.file.error, found.file.exit_code) == ("no such file", 3)
    assert (found.blamed, found.words) == (gone, "no such file")
    found = judge(JudgeTask(ODD, judging_of(Budget(max_growth=0.1), base=gone)))
    assert found.file.error == f"base {gone}: no such file"
    assert (found.file.base_file, found.file.exit_code, found.blamed) == (gone, 3, gone)
    found = judge(JudgeTask(ODD, judging_of(Budget(max_growth=0.1), base=str(tmp_path))))
    assert "has no base for it" in (found.file.error or "")
    assert found.blamed == ODD


def test_base_of_another_run_is_read_again(tmp_path: Path) -> None:
    base = tmp_path / "base.pkl.gz"
    base.write_bytes(Path(LIKE).read_bytes())
    first = judging_of(Budget(max_growth=0.1), base=str(base))
    assert judge(JudgeTask(ODD, first)).file.findings[0].outcome == "failed"
    base.write_bytes(Path(ODD).read_bytes())
    second = judging_of(Budget(max_growth=0.1), base=str(base))
    assert judge(JudgeTask(ODD, second)).file.findings[0].outcome == "passed"


def test_cause_of_a_spread_is_the_difference_between_ranks() -> None:
    judging = judging_of(Budget(max_spread=0.1))
    finding = judge(JudgeTask(ODD, judging)).file.findings[0]
    assert (finding.kind, finding.outcome) == ("max_spread", "not_judged")
    task = ApartTask(Member(LIKE, 4), Member(ODD, 5), finding, judging)
    first, *_ = tell_apart(task)
    assert (first.function, first.line) == ("keep_history", 10)
    # The cause is the same as for growth since the other file.
    with mr.open(ODD) as snap, mr.open(LIKE) as base:
        grown = gate_file(snap, (Budget(max_growth=0.0),), base=SnapshotSide(base))
    assert tell_apart(task) == grown.findings[0].causes
    gone = ApartTask(Member("gone.pkl", 0), Member(ODD, 5), finding, judging)
    assert tell_apart(gone) == ()
