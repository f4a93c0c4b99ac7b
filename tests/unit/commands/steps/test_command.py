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


def test_text_and_json(runner: CliRunner, path: str) -> None:
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
        (["--step-annotation", "ProfilerStep"], 12),
        (["--step-annotation", "Optimizer.step"], 11),
        (["--period", "100"], 15),
        (["--measure", "reserved", "--pool", "default"], 12),
        (["--stream", "0", "--strict"], 12),
        (["--to", "700"], 5),
    ],
)
def test_options(runner: CliRunner, path: str, options: list[str], steps: int) -> None:
    done = runner.invoke(app, ["steps", path, *options, "--format", "json"])
    assert (done.stderr, len(json.loads(done.stdout)["devices"][0]["steps"])) == ("", steps)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--step-annotation", "x"], "no annotation 'x'; there are: ProfilerStep, Optimizer.step"),
        (["--period", "0"], "0 is below 1"),
        (["--period", "9999"], "are not two periods of 9999"),
        (["--period", "9", "--step-annotation", "x"], "by an annotation or by a period"),
        (["--pool", "3:4"], "device 0 has no pool 3:4"),
    ],
)
def test_wrong_usage(runner: CliRunner, path: str, options: list[str], words: str) -> None:
    done = runner.invoke(app, ["steps", path, *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("Error") + done.stderr.count("error") == 1


def test_no_steps_and_strict(runner: CliRunner, tmp_path: Path) -> None:
    bare = tmp_path / "bare.pkl"
    bare.write_bytes(build.dump(SnapshotBuilder().alloc(1 << 20, 512).build()))
    done = runner.invoke(app, ["steps", str(bare)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "none found: everything that was read counts as one" in done.stdout
    bare.write_bytes(build.dump(SnapshotBuilder().segment(1 << 20, 1 << 21).build()))
    done = runner.invoke(app, ["steps", str(bare)])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no steps: no events were recorded" in done.stderr
    made = SnapshotBuilder()
    for k in range(4):
        made.alloc(1 << 20, 512, frames=[("f", "f.py", k)])  # never freed in between
    bare.write_bytes(build.dump(made.build()))
    assert runner.invoke(app, ["steps", str(bare), "--period", "2"]).exit_code == 0
    assert runner.invoke(app, ["steps", str(bare), "--period", "2", "--strict"]).exit_code == 1
