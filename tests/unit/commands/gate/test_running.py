"""running: checking all files in this process or on workers gives the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memreplay.analysis.comparing.budgets import Budget
from memreplay.commands.gate import running
from memreplay.commands.gate.files import GateFile
from memreplay.commands.gate.judging import Judging
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.source import Reading
from memreplay.errors import UsageError
from memreplay.gating.find import Terms
from memreplay.gating.result import GatedFile
from memreplay.workers.running import Done
from memreplay.workers.serial import Serial
from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "fsdp_odd_ranks"
FILES = [str(FOLDER / f"rank{n}.pkl.gz") for n in range(8)]


def gated(files: Sequence[str], judging: Judging, workers: Workers) -> list[GatedFile]:
    return running.gate_files([GateFile(file) for file in files], judging, workers)


def judging(*budgets: Budget, base: str | None = None) -> Judging:
    return Judging("run", budgets, base, Reading(), Terms())


class Backwards(Serial):
    """An executor that runs the last item first. Items in `failing` give no result."""

    def __init__(self, failing: Sequence[int] = ()) -> None:
        self.failing = failing
        self.closed = False

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Done[Any]]:
        for index in reversed(range(len(items))):
            if index in self.failing and len(items) > 1:
                yield Done(index, None, "died", "its worker ended, twice")
            else:
                yield Done(index, work(items[index]), "ok", "")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Backwards:
    found = Backwards()
    monkeypatch.setattr(running, "executor_of", lambda *_: found)
    return found


BUDGETS = (Budget(max_peak=1000 << 20), Budget(max_spread=0.05), Budget(max_growth=0.01))


@pytest.mark.parametrize("base", [FILES[0], str(FOLDER)])
def test_result_does_not_depend_on_the_reader(workers: Backwards, base: str) -> None:
    here = gated(FILES, judging(*BUDGETS, base=base), Workers())
    assert [one.file for one in here] == FILES
    assert [one.passed for one in here] == [True] * 5 + [False] + [True] * 2
    assert not workers.closed
    assert gated(FILES, judging(*BUDGETS, base=base), Workers(2)) == here
    assert workers.closed


def test_worker_processes_give_the_same_result() -> None:
    there = gated(FILES, judging(*BUDGETS[:2]), Workers(2))
    assert there == gated(FILES, judging(*BUDGETS[:2]), Workers())
    spread = [one for file in there for one in file.findings if one.kind == "max_spread"]
    assert [(one.outcome, one.device) for one in spread] == [("failed", 5)]
    assert spread[0].causes[0].function == "keep_history"


def test_other_files_are_judged_if_a_worker_dies(
    workers: Backwards, capsys: pytest.CaptureFixture[str]
) -> None:
    workers.failing = (5,)
    found = gated(FILES, judging(*BUDGETS[:2]), Workers(2))
    assert (found[5].error, found[5].exit_code) == ("its worker ended, twice", 3)
    (spread,) = (one for file in found for one in file.findings if one.kind == "max_spread")
    assert (spread.outcome, spread.count) == ("passed", 7)
    assert capsys.readouterr().err == f"memreplay: error: {FILES[5]}: its worker ended, twice\n"


def test_broken_base_is_reported_once(
    workers: Backwards, capsys: pytest.CaptureFixture[str]
) -> None:
    for some in (Workers(), Workers(2)):
        found = gated(FILES, judging(BUDGETS[2], base="gone.json"), some)
        assert {one.error for one in found} == {"base gone.json: no such file"}
        said = capsys.readouterr().err
        assert said == "memreplay: error: gone.json: no such file\n"


def test_names_are_printed_as_given(
    workers: Backwards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (3, 4):
        (tmp_path / f"{number}.pkl.gz").symlink_to(FILES[number])
    monkeypatch.chdir(tmp_path)
    files = ["3.pkl.gz", "./4.pkl.gz", "gone.pkl"]
    for some in (Workers(), Workers(2)):
        found = gated(files, judging(BUDGETS[0]), some)
        assert [one.file for one in found] == files


def test_many_files_are_read_by_workers(
    workers: Backwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MANY_FILES", 8)

    def are_on_workers(files: Sequence[str]) -> bool:
        workers.closed = False
        gated(files, judging(BUDGETS[0]), Workers())
        return workers.closed

    assert [are_on_workers(some) for some in (FILES[:7], FILES)] == [False, True]
    monkeypatch.setattr(running, "MANY_BYTES", sum(Path(file).stat().st_size for file in FILES[:2]))
    assert [are_on_workers(some) for some in (FILES[:1], FILES[:2])] == [False, True]


def test_standard_input_is_read_by_the_main_process() -> None:
    with pytest.raises(UsageError, match="workers can't read standard input; give a file"):
        gated(["-"], judging(BUDGETS[0]), Workers(2))
    with pytest.raises(UsageError, match="workers can't read standard input; give a file"):
        gated(FILES, judging(BUDGETS[2], base="-"), Workers(2))
