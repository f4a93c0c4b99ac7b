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


def test_text_json_and_fail(runner: CliRunner, path: str, leak: int) -> None:
    done = runner.invoke(app, ["leaks", path])
    assert (done.exit_code, done.stderr) == (0, "")
    assert ("1 stack leaks 64.0 KiB a step" if leak else "no leak") in done.stdout
    assert runner.invoke(app, ["leaks", path, "--fail"]).exit_code == (1 if leak else 0)
    assert runner.invoke(app, ["leaks", path, "--strict"]).exit_code == 0
    found = json.loads(runner.invoke(app, ["leaks", path, "--format", "json"]).stdout)
    assert found["schema"] == "memreplay.leaks/1"
    assert found["leaking"] is bool(leak)


@pytest.mark.parametrize("leak", [64 << 10], indirect=False)
def test_options(runner: CliRunner, path: str) -> None:
    def device(*options: str) -> dict[str, object]:
        done = runner.invoke(app, ["leaks", path, "--format", "json", *options])
        assert (done.exit_code, done.stderr) == (0, "")
        found: dict[str, object] = json.loads(done.stdout)["devices"][0]
        return found

    assert device("--min-growth", "65KiB")["leaks_total"] == 0
    assert device("--total-memory", "1GiB")["runs_out"]["total_bytes"] == 1 << 30  # type: ignore[index]
    assert device("--windows", "10")["steps"] == 10
    assert device("--period", "200")["source"]["kind"] == "given"  # type: ignore[index]
    assert device("--step-annotation", "Optimizer.step")["steps"] == 29
    assert device("--older-than", "0")["old_count"] > device("--older-than", "9")["old_count"]  # type: ignore[operator]
    assert device("--measure", "held", "--top", "1", "--stream", "0")["leaks_total"] == 1


@pytest.mark.parametrize("leak", [64 << 10], indirect=False)
def test_ways_and_filters(runner: CliRunner, path: str) -> None:
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
    # Steps are those of the whole all the same.
    assert nothing["devices"][0]["steps"] == whole["devices"][0]["steps"]
    assert not nothing["leaking"]
    left = found("--include", place["file"], "--only-live-at-end", "--total-memory", "1GiB")
    assert left["filters"]["only_live_at_end"]
    all_of_it = found("--total-memory", "1GiB")
    assert left["devices"][0]["runs_out"] == all_of_it["devices"][0]["runs_out"]
    shown = runner.invoke(app, ["leaks", path, "--by", "file"]).stdout
    assert "1 group leaks" in shown
    assert "  file\n" in shown


@pytest.mark.parametrize(
    "options, words",
    [
        (["--measure", "reserved"], "reserved memory consists of segments"),
        (["--windows", "4"], "4 is not between 5 and"),
        (["--windows", "9", "--period", "3"], "windows take the place of steps"),
        (["--min-bytes", "much"], "'much' is not a size"),
        (["--by", "colour"], "'colour' is not one of stack, "),
        (["--only-carried-over"], "No such option"),
        (["--step-annotation", "x"], "no annotation 'x'"),
    ],
)
def test_wrong_usage(runner: CliRunner, path: str, options: list[str], words: str) -> None:
    done = runner.invoke(app, ["leaks", path, *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_too_little_and_strict(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "few.pkl"
    file.write_bytes(leaky.snapshot_bytes(leaky.Options(steps=3)))
    done = runner.invoke(app, ["leaks", str(file), "--fail"])
    assert (done.exit_code, done.stderr) == (5, "")
    assert "device 0: 3 steps, too few to tell a leak" in done.stdout
    assert "3 steps are too few to tell a leak from a start-up; record 5 or more" in done.stdout
    done = runner.invoke(app, ["leaks", str(file), "--format", "json"])
    assert done.exit_code == 5
    report = json.loads(done.stdout)
    check_against("leaks-1.json", report)
    assert (report["judged"], report["leaking"]) == (False, False)
    assert report["devices"][0]["not_judged"].startswith("3 steps are too few to tell")
    file.write_bytes(build.dump(SnapshotBuilder().segment(1 << 30, 1 << 21).build()))
    done = runner.invoke(app, ["leaks", str(file)])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no events were recorded" in done.stderr
    assert runner.invoke(app, ["leaks", str(tmp_path / "none.pkl")]).exit_code == 3
    made = SnapshotBuilder()
    for _ in range(10):
        made.alloc(1 << 20, 512)
    file.write_bytes(build.dump(made.build()))
    assert runner.invoke(app, ["leaks", str(file), "--period", "2", "--strict"]).exit_code == 1


def one_pass() -> bytes:
    """A forward pass through 40 layers: each keeps an activation."""
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
    done = runner.invoke(app, ["gate", str(path), "--no-leaks", "--no-config"])
    assert done.exit_code == 1
    assert "FAIL no-leaks could not be judged: memory grows by 4.0 KiB each time" in done.stdout
    done = runner.invoke(app, ["report", str(path)])
    assert "a leak, unless this is a single pass" in " ".join(done.stdout.split())
    assert "look for a list" not in done.stdout
    # Whoever asks for windows has said what to judge.
    done = runner.invoke(app, ["leaks", str(path), "--fail", "--windows", "20"])
    assert done.exit_code == 1
