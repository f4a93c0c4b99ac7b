"""Tests of commands/dryrun/largest.py, with faked runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.dryrun import largest
from memreplay.commands.dryrun.largest import find_largest
from memreplay.commands.dryrun.numbers import Range
from memreplay.commands.dryrun.result import DryrunReport, Unknown
from memreplay.commands.dryrun.running import DryrunOptions
from memreplay.errors import MemreplayError, NothingToTellError, UsageError
from tests.unit.commands.dryrun.conftest import Ground
from tests.unit.commands.dryrun.reports import GIB, one_process, report
from tests.unit.commands.dryrun.test_running import ASKED
from tests.unit.render.schemas import check_against

Find = Callable[..., tuple[int, str]]
MIB = 1 << 20


def of(value: int) -> DryrunReport:
    """Return the report of a program that needs 250 MiB for each unit."""
    spare = 12 * GIB - value * 250 * MIB
    made = report(
        spare_bytes=spare,
        peak_bytes=16 * GIB - GIB - spare,
        processes=(one_process(7, file=f"out.{value}.pickle"),),
    )
    if spare >= 0:
        return made
    return replace(made, verdict="does_not_fit", outcome="out_of_memory")


@pytest.fixture
def find(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Find:
    """Return a search's exit code and output, with these results instead of those of `of`."""
    monkeypatch.chdir(tmp_path)

    def found(
        results: dict[int, DryrunReport | MemreplayError] | None = None, **changes: Any
    ) -> tuple[int, str]:
        def ran(one: DryrunOptions, _: Selection) -> DryrunReport:
            assert not one.largest
            word = one.program[-1].rpartition("=")[2]
            assert one.output == f"out.{word}.pickle"
            Path(one.output).touch()
            result = (results or {}).get(int(word)) or of(int(word))
            if isinstance(result, MemreplayError):
                raise result
            return result

        monkeypatch.setattr(largest, "ran", ran)
        asked = {
            "largest": True,
            "gpu": "T4",
            "output": "out.pickle",
            "program": ("python", "train.py", "--batch", "{}"),
        }
        code = find_largest(replace(ASKED, **{**asked, **changes}), Selection())
        return code, capsys.readouterr().out

    return found


def first(out: str) -> str:
    return out.partition("\n")[0]


def test_largest_number_and_the_next_one_are_named(find: Find) -> None:
    code, out = find()
    assert code == 0
    # 12 GiB is 49.15 times 250 MiB.
    assert first(out) == "--batch 49 fits T4 (38.0 MiB to spare); 50 doesn't"
    rows = [line.split() for line in out.splitlines() if line.startswith("--batch")][1:]
    assert [int(row[1]) for row in rows] == [1, 2, 4, 8, 16, 32, 48, 49, 50, 52, 56, 64]
    assert rows[-1][-3:] == ["out", "of", "memory"]
    assert "note: 12 runs, assuming that a larger number needs at least as much memory" in out
    assert "warning: less than 64.0 MiB to spare: it may not fit" in out
    # Only the snapshots of these two are kept.
    assert sorted(path.name for path in Path().iterdir()) == ["out.49.pickle", "out.50.pickle"]


@pytest.mark.parametrize(
    "program, name",
    [
        (("python", "t.py", "--batch", "{}"), "--batch 8"),
        (("python", "t.py", "--batch={}"), "--batch=8"),
        (("python", "t.py", "data.batch={}"), "data.batch=8"),
        (("python", "t.py", "{}"), "8"),
    ],
)
def test_argument_is_named_as_in_the_command(find: Find, program: Any, name: str) -> None:
    code, out = find(program=program, numbers=Range(8, 8))
    assert code == 0
    assert (
        first(out) == f"{name} fits T4 (10.0 GiB to spare); larger numbers weren't tried (--range)"
    )


def test_smallest_number_that_does_not_fit_ends_the_search(find: Find) -> None:
    code, out = find(numbers=Range(60, 100, 4))
    assert (code, first(out)) == (1, "--batch 60 doesn't fit T4")
    assert "note: 1 run, " in out


def test_numbers_keep_their_distance(find: Find) -> None:
    code, out = find(numbers=Range(8, 512, 8))
    assert (code, first(out)) == (0, "--batch 48 fits T4 (288.0 MiB to spare); 56 doesn't")


def test_program_over_its_budget_does_not_fit(find: Find) -> None:
    over = replace(of(2), verdict="over_budget", budget="FAIL")
    code, out = find({2: over})
    assert (code, first(out)) == (0, "--batch 1 fits T4 (11.8 GiB to spare); 2 doesn't")


def test_number_that_fits_as_far_as_is_known(find: Find) -> None:
    unknown = replace(of(49), workspaces=(Unknown("cuDNN", 1),))
    _, out = find({49: unknown})
    assert first(out) == "--batch 49 fits T4, as far as is known (38.0 MiB to spare); 50 doesn't"


def test_program_that_fails_for_another_reason_ends_the_search(find: Find) -> None:
    failed = report(
        outcome="failed", verdict="not_known", exit_code=1, error="ValueError: not a multiple"
    )
    code, out = find({8: failed})
    assert code == 6
    assert " ".join(out.split()).startswith(
        "--batch 4 fits T4 (11.0 GiB to spare); larger numbers aren't known: with --batch 8, the"
        " program failed: ValueError: not a multiple run allocated"
    )
    code, out = find({1: failed})
    assert code == 6
    assert first(out) == "with --batch 1, the program failed: ValueError: not a multiple"


def test_program_that_cannot_be_run_ends_the_search(find: Find) -> None:
    error = NothingToTellError("the program used no GPU")
    code, out = find({2: error})
    assert code == 6
    assert " ".join(out.split()).startswith(
        "--batch 1 fits T4 (11.8 GiB to spare); larger numbers aren't known: with --batch 2, the"
        " program used no GPU "
    )
    with pytest.raises(NothingToTellError):  # the first run may just be wrong
        find({1: error})


def test_interrupted_search_ends_by_the_signal(find: Find) -> None:
    stopped = report(outcome="interrupted", verdict="not_known", stopped_by=15)
    code, out = find({4: stopped})
    assert code == 128 + 15
    assert "larger numbers aren't known: with --batch 4, stopped by SIGTERM" in " ".join(
        out.split()
    )


def test_command_needs_a_place_for_the_number(find: Find) -> None:
    with pytest.raises(UsageError, match=r"^--largest needs \{\} in the command"):
        find(program=("python", "train.py"))


def test_json_has_all_runs(find: Find) -> None:
    code, out = find(as_json=True)
    found = json.loads(out)
    check_against("dryrun-largest-1.json", found)
    assert code == 0
    assert (found["argument"], found["gpu"]) == ("--batch {}", "T4")
    assert (found["min_value"], found["max_value"], found["value_step"]) == (1, 65536, 1)
    assert (found["largest_value"], found["next_fits"]) == (49, False)
    tried = [1, 2, 4, 8, 16, 32, 64, 48, 56, 52, 50, 49]
    assert [one["value"] for one in found["tried"]] == tried
    assert [one["run"]["report"]["verdict"] == "fits" for one in found["tried"]] == [
        value <= 49 for value in tried
    ]


PROGRAM = """
import sys, torch
torch.take(int(sys.argv[1]) << 30)
"""


def test_program_is_run_with_each_number(ground: Ground, capfd: Any) -> None:
    ground.program(PROGRAM)
    import sys

    program = (sys.executable, "prog.py", "{}")
    done = ground.ask("--gpu", "T4", "--largest", program=program)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("14 fits T4 (")
    assert first(done.stdout).endswith("; 15 doesn't")
    assert ground.left() == ["dryrun.14.pickle", "dryrun.15.pickle"]
    assert "memreplay: run 1: 1\nmemreplay: run 1: fits\n" in done.stderr


def test_options_that_exclude_each_other(ground: Ground) -> None:
    ground.program(PROGRAM)
    done = ground.ask("--largest", "--compare", "T4,L4", program=("python", "{}"))
    assert (done.exit_code, "can't be combined" in done.stderr) == (2, True)
    done = ground.ask("--range", "1:4", program=("python", "{}"))
    assert (done.exit_code, "--range" in done.stderr) == (2, True)
