"""Tests of commands/plan/running.py, with faked dry runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.app import app
from memreplay.commands.dryrun.result import DryDevice, DryrunReport
from memreplay.commands.dryrun.running import DryrunOptions
from memreplay.commands.plan import running
from memreplay.errors import NothingToTellError, UsageError
from memreplay.render.units import size
from tests.unit.analysis.planning.training import MIB, Block, Operation, trained
from tests.unit.commands.dryrun.reports import one_process, outside, report
from tests.unit.render.schemas import check_against

BLOCKS = [Block((Operation(200 * MIB, saved=True),), 8 * MIB)] * 6
FIT = "1200MiB"
FAILED = {"verdict": "not_known", "outcome": "failed", "exit_code": 1}
OOM = {"verdict": "does_not_fit", "outcome": "out_of_memory"}
Ran = Callable[[DryrunOptions], DryrunReport]


def chosen(asked: DryrunOptions) -> frozenset[int]:
    """Return the blocks that a run recomputes."""
    numbers = list(range(len(BLOCKS)))
    found: set[int] = set()
    for change in asked.change:
        for pattern in change.removeprefix("checkpoint=").split(","):
            match = re.fullmatch(r"layers\.(?:(\d+)|\*(?:\[(\d*):(\d*)(?::(\d*))?\])?)", pattern)
            assert match, pattern
            one, *parts = match.groups()
            found |= (
                {int(one)} if one else {*numbers[slice(*(int(x) if x else None for x in parts))]}
            )
    return frozenset(found)


def measured(asked: DryrunOptions) -> DryrunReport:
    """Return the report of a run that fits."""
    file = asked.output or "dryrun.pickle"
    peak = trained(BLOCKS, chosen(asked)).peak
    device = DryDevice(0, outside(), peak + MIB, peak, peak, peak, 0, 0)
    process = one_process(7, device, file=file)
    return report(processes=(process,), shown=file, spare_bytes=5 * MIB)


class Program:
    """A program whose dry runs are faked."""

    def __init__(self, runner: CliRunner) -> None:
        self.runner = runner
        self.asked: list[DryrunOptions] = []
        self.changed: Ran = measured
        self.unchanged: Ran = measured

    def ran(self, asked: DryrunOptions, _selection: Selection) -> DryrunReport:
        self.asked.append(asked)
        if len(self.asked) > 1:
            return self.changed(asked)
        Path(asked.output or "dryrun.pickle").write_bytes(trained(BLOCKS).dump())
        return self.unchanged(asked)

    def plan(self, *options: str) -> Result:
        return self.runner.invoke(app, ["plan", *options, "--", "python", "train.py"])

    def told(self, *options: str) -> tuple[int, dict[str, Any], list[list[str]]]:
        """Return the exit code, the only device and the names of each plan's levers."""
        done = self.plan("--json", *options)
        found = json.loads(done.stdout)
        check_against("plan-1.json", found)
        assert (found["command"], found["file"]) == (["python", "train.py"], "dryrun.pickle")
        (device,) = found["devices"]
        names = [[lever["name"] for lever in one["levers"]] for one in device["plans"]]
        return done.exit_code, device, names


@pytest.fixture
def program(runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    made = Program(runner)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "ran", made.ran)
    return made


def test_plans_without_edits_are_run_on_the_card(program: Program) -> None:
    code, device, names = program.told("--fit", FIT, "--gpu", "L4", "--timeout", "9")
    assert code == 0
    assert names[0] == ["checkpoint"]
    first, *others = device["plans"]
    real = trained(BLOCKS, chosen(program.asked[1])).peak
    assert first["exactness"] == "verified"
    assert first["requested_peak_bytes"] == real
    assert first["verified"] == {
        "requested_peak_bytes": real,
        "reserved_peak_bytes": real + MIB,
        "spare_bytes": 5 * MIB,
        "error_share": 0.0,
        "exact": True,
    }
    assert first["spare_bytes"] == 5 * MIB
    assert others
    for one in others:  # all of them need edits
        assert (one["exactness"], one["verified"]) == ("estimated", None)
    unchanged, changed = program.asked
    assert not unchanged.change
    assert unchanged.total_memory == 2**40
    assert changed.total_memory == 1200 * MIB
    assert all((one.gpu, one.timeout) == ("L4", 9) for one in program.asked)
    assert os.listdir() == ["dryrun.pickle"]


def test_text_has_real_and_predicted_peaks(program: Program) -> None:
    done = program.plan("--fit", FIT)
    assert "device 0: fits 1.2 GiB with 1 change, 5.0 MiB to spare" in done.stdout
    peak = trained(BLOCKS, chosen(program.asked[1])).peak
    real = f"{size(peak)} requested, {size(peak + MIB)} reserved"
    assert f"verified   fits: {real}" in done.stdout
    assert f"predicted  {size(peak)} requested (exact), " in done.stdout
    assert "options    --change 'checkpoint=layers.*" in done.stdout
    assert "which arguments a module holds" not in done.stdout
    assert "memreplay: dry run 1 on 1.0 TiB: unchanged" in done.stderr
    assert "memreplay: dry run 2 on 1.2 GiB: checkpoint=layers.*" in done.stderr


def test_plan_that_fails_in_its_dry_run_is_replaced_by_the_next_one(program: Program) -> None:
    def changed(asked: DryrunOptions) -> DryrunReport:
        return report(**OOM) if len(program.asked) == 2 else measured(asked)

    program.changed = changed
    code, device, names = program.told("--fit", FIT)
    assert code == 0
    assert names[0] == ["checkpoint", "set"]  # the same modules, with other settings
    first, tried = program.asked[1:3]
    assert first.change == tried.change
    assert (first.settings, tried.settings) == ((), ("expandable_segments:True",))
    (failed,) = device["failed_plans"]
    assert failed["lever_names"] == list(first.change)
    assert "out of memory" in failed["reason"]


def test_more_modules_are_recomputed_if_a_dry_run_fails(program: Program) -> None:
    program.changed = lambda asked: measured(asked) if len(chosen(asked)) > 4 else report(**OOM)
    code, device, names = program.told("--fit", FIT)
    assert code == 0
    assert names[0][0] == "checkpoint"
    assert all(len(chosen(one)) <= 4 for one in program.asked[1:-1])
    assert len(chosen(program.asked[-1])) > 4
    assert len(device["failed_plans"]) == len(program.asked) - 2


def test_changes_that_cannot_be_made_are_no_plans(program: Program) -> None:
    def changed(_asked: DryrunOptions) -> DryrunReport:
        raise UsageError("--change checkpoint=layers.*: no module matches")

    program.changed = changed
    code, device, names = program.told("--fit", FIT)
    assert code == 0
    assert names
    assert "checkpoint" not in {name for one in names for name in one}
    assert 0 < len(device["failed_plans"]) <= 5
    assert len({(one.change, one.settings) for one in program.asked[1:]}) == len(
        device["failed_plans"]
    )
    program.asked.clear()
    text = program.plan("--fit", FIT).stdout
    assert "note: not shown: checkpoint=layers.*" in text


def test_prediction_error_is_shown(program: Program) -> None:
    def changed(asked: DryrunOptions) -> DryrunReport:
        device = DryDevice(0, outside(), 700 * MIB, 600 * MIB, 640 * MIB, 640 * MIB, 0, 0)
        process = one_process(7, device, file=asked.output)
        return report(processes=(process,), shown=asked.output, exact=False)

    program.changed = changed
    _, device, _ = program.told("--fit", FIT)
    first = device["plans"][0]
    error = first["requested_peak_bytes"] / (640 * MIB) - 1
    assert error
    assert first["verified"]["error_share"] == pytest.approx(error, abs=1e-6)
    program.asked.clear()
    text = program.plan("--fit", FIT).stdout
    assert f"({abs(error):.2%} too {'high' if error > 0 else 'low'})" in text
    assert "fits, as far as is known: 640.0 MiB requested, 700.0 MiB reserved" in text


def test_program_that_fits_is_verified_too(program: Program) -> None:
    code, device, names = program.told("--fit", "8GiB")
    assert (code, device["fits"], names) == (0, True, [])
    assert device["verified"]["error_share"] == 0
    assert [one.total_memory for one in program.asked] == [2**40, 8 << 30]
    text = program.plan("--fit", "8GiB").stdout
    assert "device 0: fits 8.0 GiB already, 5.0 MiB to spare" in text


def test_program_that_only_fits_in_the_model_needs_a_plan(program: Program) -> None:
    program.changed = lambda asked: measured(asked) if asked.change else report(**OOM)
    _, device, _ = program.told("--fit", "8GiB")
    assert not device["fits"]
    assert device["verified"] is None


def test_card_is_the_imitated_one_by_default(program: Program) -> None:
    done = program.plan("--gpu", "T4", "--json")
    found = json.loads(done.stdout)
    assert (found["gpu"], found["devices"][0]["total_memory_bytes"]) == ("T4", 15_637_086_208)


@pytest.mark.parametrize(
    "given, code, words",
    [
        (FAILED, 6, "the program failed with exit code 1, not for lack of memory"),
        ({"verdict": "not_known", "outcome": "timed_out"}, 6, "stopped after 3 s (--timeout)"),
        ({"verdict": "not_known", "outcome": "interrupted", "stopped_by": 15}, 143, "SIGTERM"),
        ({"verdict": "not_known"}, 6, "a process ended without reporting its memory"),
    ],
)
def test_program_that_fails_has_no_plan(
    program: Program, given: dict[str, Any], code: int, words: str
) -> None:
    program.unchanged = lambda _asked: report(**given)
    done = program.plan("--fit", FIT)
    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr


def test_interrupted_check_ends_the_command(program: Program) -> None:
    program.changed = lambda _asked: report(verdict="not_known", outcome="interrupted")
    done = program.plan("--fit", FIT)
    assert (done.exit_code, done.stdout) == (6, "")
    assert "stopped by Ctrl-C" in done.stderr


def test_program_without_a_gpu_has_no_plan(program: Program) -> None:
    def unchanged(_asked: DryrunOptions) -> DryrunReport:
        raise NothingToTellError("the program used no GPU")

    program.unchanged = unchanged
    assert program.plan("--fit", FIT).exit_code == 5


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["x.pkl", "--fit", "1GiB", "--gpu", "L4"], "--gpu only applies to a program"),
        (["x.pkl", "--fit", "1GiB", "--set", "a:1"], "--set only applies to a program"),
        (["x.pkl", "y.pkl", "--fit", "1GiB"], "write -- before a program"),
        (["x.pkl", "--fit", "1GiB", "--", "python"], "give a FILE or a program, not both"),
        (["--fit", "1MiB", "--", "python"], "--fit 1.0 MiB: CUDA itself takes 419.8 MiB"),
        (["--fit", "1GiB"], "missing argument"),
    ],
)
def test_usage_errors_say_what_to_do(runner: CliRunner, arguments: list[str], words: str) -> None:
    done = runner.invoke(app, ["plan", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
