"""Tests of commands/steps/command.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import leaky
from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "snap.pkl"
    made.write_bytes(leaky.snapshot_bytes(leaky.Options(steps=12)))
    return str(made)


def test_steps_are_shown_as_text_and_json(runner: CliRunner, path: str) -> None:
    done = runner.invoke(app, ["steps", path, "--top", "4"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "device 0: 12 steps" in done.stdout
    assert "8 steps left out" in done.stdout
    found = json.loads(runner.invoke(app, ["steps", path, "--format", "json"]).stdout)
    assert found["schema"] == "memreplay.steps/1"
    assert len(found["devices"][0]["steps"]) == 12


@pytest.mark.parametrize(
    "options, steps",
    [
        (["--step", "annotation=ProfilerStep"], 12),
        (["--step", "annotation=Optimizer.step"], 11),
        (["--step", "period=100"], 15),
        (["--measure", "reserved", "--only", "pool=default"], 12),
        (["--only", "stream=0", "--strict"], 12),
        (["--to", "700"], 5),
    ],
)
def test_options_decide_what_a_step_is(
    runner: CliRunner, path: str, options: list[str], steps: int
) -> None:
    done = runner.invoke(app, ["steps", path, *options, "--format", "json"])
    assert (done.stderr, len(json.loads(done.stdout)["devices"][0]["steps"])) == ("", steps)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--step", "annotation=x"], "no annotation 'x'; there are: ProfilerStep, Optimizer.step"),
        (["--step", "period=0"], "0 is below 1"),
        (["--step", "period=9999"], "are fewer than two periods of 9999"),
        (
            ["--step", "period=9", "--step", "annotation=x"],
            "give steps by an annotation or a period, not both",
        ),
        (["--only", "pool=3:4"], "device 0 has no pool 3:4"),
    ],
)
def test_invalid_options_are_rejected(
    runner: CliRunner, path: str, options: list[str], words: str
) -> None:
    done = runner.invoke(app, ["steps", path, *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("Error") + done.stderr.count("error") == 1


def test_error_if_there_are_no_steps(runner: CliRunner, tmp_path: Path) -> None:
    bare = tmp_path / "bare.pkl"
    bare.write_bytes(build.dump(SnapshotBuilder().alloc(1 << 20, 512).build()))
    done = runner.invoke(app, ["steps", str(bare)])
    assert (done.exit_code, done.stderr) == (5, "")
    assert "none found: the whole recording is shown as one" in done.stdout
    assert runner.invoke(app, ["steps", str(bare), "--json", "--strict"]).exit_code == 5
    bare.write_bytes(build.dump(SnapshotBuilder().segment(1 << 20, 1 << 21).build()))
    done = runner.invoke(app, ["steps", str(bare)])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no steps: no events were recorded" in done.stderr
    made = SnapshotBuilder()
    for k in range(4):
        made.alloc(1 << 20, 512, frames=[("f", "f.py", k)])  # the block was never freed in between
    bare.write_bytes(build.dump(made.build()))
    assert runner.invoke(app, ["steps", str(bare), "--step", "period=2"]).exit_code == 0
    assert runner.invoke(app, ["steps", str(bare), "--step", "period=2", "--strict"]).exit_code == 1
