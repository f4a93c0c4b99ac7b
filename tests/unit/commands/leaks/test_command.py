"""Tests of commands/leaks/command.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import leaky
from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.render.schemas import check_against


@pytest.fixture(params=["", "0"])
def leak(request: pytest.FixtureRequest) -> int:
    return 0 if request.param else 64 << 10


@pytest.fixture
def path(tmp_path: Path, leak: int) -> str:
    made = tmp_path / "snap.pkl"
    made.write_bytes(leaky.snapshot_bytes(leaky.Options(steps=30, leak_bytes=leak)))
    return str(made)


def test_leak_is_shown_and_fail_sets_the_exit_code(runner: CliRunner, path: str, leak: int) -> None:
    done = runner.invoke(app, ["leaks", path])
    assert (done.exit_code, done.stderr) == (0, "")
    assert ("1 stack leaks 64.0 KiB a step" if leak else "no leak") in done.stdout
    assert runner.invoke(app, ["leaks", path, "--fail"]).exit_code == (1 if leak else 0)
    assert runner.invoke(app, ["leaks", path, "--strict"]).exit_code == 0
    found = json.loads(runner.invoke(app, ["leaks", path, "--format", "json"]).stdout)
    assert found["schema"] == "memreplay.leaks/1"
    assert found["leaking"] is bool(leak)


@pytest.mark.parametrize("leak", [64 << 10], indirect=False)
def test_options_change_the_report(runner: CliRunner, path: str) -> None:
    def device(*options: str) -> dict[str, object]:
        done = runner.invoke(app, ["leaks", path, "--format", "json", *options])
        assert (done.exit_code, done.stderr) == (0, "")
        found: dict[str, object] = json.loads(done.stdout)["devices"][0]
        return found

    assert device("--min-growth", "65KiB")["leaks_total"] == 0
    assert device("--total-memory", "1GiB")["runs_out"]["total_memory_bytes"] == 1 << 30  # type: ignore[index]
    assert device("--step", "windows=10")["step_count"] == 10
    assert device("--step", "period=200")["step_source"]["found_by"] == "given"  # type: ignore[index]
    assert device("--step", "annotation=Optimizer.step")["step_count"] == 29
    assert device("--older-than", "0")["old_count"] > device("--older-than", "9")["old_count"]  # type: ignore[operator]
    assert device("--measure", "held", "--top", "1", "--only", "stream=0")["leaks_total"] == 1


@pytest.mark.parametrize("leak", [64 << 10], indirect=False)
def test_grouping_keys_and_filters_apply(runner: CliRunner, path: str) -> None:
    def found(*options: str) -> dict[str, Any]:
        done = runner.invoke(app, ["leaks", path, "--format", "json", *options])
        assert (done.exit_code, done.stderr) == (0, "")
        report: dict[str, Any] = json.loads(done.stdout)
        check_against("leaks-1.json", report)
        return report

    whole = found()
    assert (whole["by"], whole["filters"]) == ("stack", None)
    for by in ("file", "category,size", "module"):
        report = found("--by", by)
        assert report["by"] == by
        device = report["devices"][0]
        assert (device["end_bytes"], device["leaks_total"]) == (
            whole["devices"][0]["end_bytes"],
            1,
        )
    place = whole["devices"][0]["leaks"][0]["frames"][0]
    nothing = found("--exclude", place["file"])
    # Filters don't change the steps.
    assert nothing["devices"][0]["step_count"] == whole["devices"][0]["step_count"]
    assert not nothing["leaking"]
    left = found("--include", place["file"], "--only", "live-at-end", "--total-memory", "1GiB")
    assert left["filters"]["only_live_at_end"]
    all_of_it = found("--total-memory", "1GiB")
    assert left["devices"][0]["runs_out"] == all_of_it["devices"][0]["runs_out"]
    shown = runner.invoke(app, ["leaks", path, "--by", "file"]).stdout
    assert "1 group leaks" in shown
    assert "  file\n" in shown


@pytest.mark.parametrize(
    "options, words",
    [
        (["--measure", "reserved"], "leaks can't be found in reserved memory"),
        (["--step", "windows=4"], "4 is not between 5 and"),
        (["--step", "windows=9", "--step", "period=3"], "windows replace steps"),
        (["--only", "min-bytes=much"], "'much' is not a size"),
        (["--by", "colour"], "'colour' is not one of stack, "),
        (["--only", "carried-over"], "unknown key 'carried-over'"),
        (["--step", "annotation=x"], "no annotation 'x'"),
    ],
)
def test_usage_errors_are_reported(
    runner: CliRunner, path: str, options: list[str], words: str
) -> None:
    done = runner.invoke(app, ["leaks", path, *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_too_few_steps_set_the_exit_code(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "few.pkl"
    file.write_bytes(leaky.snapshot_bytes(leaky.Options(steps=3)))
    done = runner.invoke(app, ["leaks", str(file), "--fail"])
    assert (done.exit_code, done.stderr) == (5, "")
    assert "device 0: 3 steps, too few to judge leaks" in done.stdout
    assert "3 steps are too few to distinguish a leak from warm-up; record 5 or more" in done.stdout
    done = runner.invoke(app, ["leaks", str(file), "--format", "json"])
    assert done.exit_code == 5
    report = json.loads(done.stdout)
    check_against("leaks-1.json", report)
    assert (report["judged"], report["leaking"]) == (False, False)
    assert report["devices"][0]["not_judged_reason"].startswith(
        "3 steps are too few to distinguish"
    )
    file.write_bytes(build.dump(SnapshotBuilder().segment(1 << 30, 1 << 21).build()))
    done = runner.invoke(app, ["leaks", str(file)])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no events were recorded" in done.stderr
    assert runner.invoke(app, ["leaks", str(tmp_path / "none.pkl")]).exit_code == 3
    made = SnapshotBuilder()
    for _ in range(10):
        made.alloc(1 << 20, 512)
    file.write_bytes(build.dump(made.build()))
    assert runner.invoke(app, ["leaks", str(file), "--step", "period=2", "--strict"]).exit_code == 1


def one_pass() -> bytes:
    """Build a forward pass through 40 layers, each of which keeps an activation."""
    made = SnapshotBuilder()
    for k in range(40):
        for line in range(10):
            frames = [("layer", "/home/ana/net.py", line), ("main", "/home/ana/net.py", 50)]
            one = (100 * k + line) << 20, 4096 * (line + 1)
            made.alloc(*one, frames=frames)
            if line:
                made.free(*one)
    return build.dump(made.build())


def test_growth_over_guessed_steps_may_be_a_single_pass(runner: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(one_pass())
    done = runner.invoke(app, ["leaks", str(path)])
    assert (
        "1 stack keeps 4.0 KiB more each step: a leak, unless this is a single pass" in done.stdout
    )
    assert "note: nothing marks steps here" in done.stdout
    found = json.loads(runner.invoke(app, ["leaks", str(path), "--format", "json"]).stdout)
    (device,) = found["devices"]
    assert (found["leaking"], device["guessed"], device["runs_out"]) == (False, True, None)
    done = runner.invoke(app, ["leaks", str(path), "--fail", "--total-memory", "1GiB"])
    assert done.exit_code == 5
    assert "a leak, unless this is a single pass" in done.stderr
    done = runner.invoke(app, ["gate", str(path), "--forbid", "leaks", "--config", "none"])
    assert done.exit_code == 1
    assert (
        "FAIL forbid-leaks couldn't be checked: memory grows by 4.0 KiB a step: a leak"
        in done.stdout
    )
    done = runner.invoke(app, ["report", str(path)])
    assert "a leak, unless this is a single pass" in " ".join(done.stdout.split())
    assert "look for a list" not in done.stdout
    # With the windows option, windows are judged instead.
    done = runner.invoke(app, ["leaks", str(path), "--fail", "--step", "windows=20"])
    assert done.exit_code == 1


def state_made_late() -> bytes:
    """Build a program without stacks whose optimizer creates state in every fourth step until the
    end.
    """
    made = SnapshotBuilder()
    for k in range(40):
        for _ in range(10):
            made.alloc(1 << 40, 1 << 20).free(1 << 40, 1 << 20)
        made.annotation("Optimizer.step#Adam.step", "START")
        made.alloc(1 << 41, 512).free(1 << 41, 512)
        if k % 4 == 0:
            made.alloc(k << 30, 1 << 16)
        made.annotation("Optimizer.step#Adam.step", "END")
    return build.dump(made.build())


def test_growth_in_an_optimizer_step_without_stacks_may_be_its_state(
    runner: CliRunner, tmp_path: Path
) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(state_made_late())

    def words(*command: str, code: int = 0) -> str:
        done = runner.invoke(app, [*command[:1], str(path), *command[1:]])
        assert done.exit_code == code, done.output
        return " ".join((done.stdout + done.stderr).split())

    unless = "a leak, unless it's lazily created optimizer state"
    text = words("leaks", "--total-memory", "1GiB")
    assert f"memory grows by 14.8 KiB a step: {unless}" in text
    assert (
        "without stacks, a leak can't be distinguished from lazily created optimizer state" in text
    )
    assert "odds" not in text
    assert "leaks a step" not in text
    assert "runs out" not in text
    assert unless in words("leaks", "--fail", code=5)
    gate = words("gate", "--forbid", "leaks", "--config", "none", code=1)
    assert "FAIL forbid-leaks couldn't be checked" in gate
    assert "lazily created optimizer state" in gate
    report = words("report")
    assert unless in report
    assert "look for a list" not in report
    found = json.loads(words("leaks", "--json"))
    assert (found["leaking"], found["devices"][0]["unless"]) == (False, "late_state")
