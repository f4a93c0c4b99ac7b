"""Tests of commands/timeline/command.py, on a small file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.timeline.timelines import MIB, recording
from tests.unit.render.schemas import check_against


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(recording().build()))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["timeline", path, *options])


def test_text_has_a_picture_that_fits_the_width(runner: CliRunner, path: str) -> None:
    result = ask(runner, path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "device 0: peak 400.0 MiB requested at event 39" in result.stdout
    assert "⣿" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    "options, points, x",
    [
        ([], 1000, "time"),
        (["--points", "5"], 5, "time"),
        (["--x", "event", "--points", "500"], 81, "event"),
    ],
)
def test_json_has_the_requested_number_of_points(
    runner: CliRunner, path: str, options: list[str], points: int, x: str
) -> None:
    result = ask(runner, path, "--format", "json", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    check_against("timeline-1.json", found)
    assert found["x"] == x
    assert len(found["devices"][0]["max_bytes"]) == points
    assert max(found["devices"][0]["max_bytes"]) == 400 * MIB


@pytest.mark.parametrize(
    "options", [["--measure", "requested,active"], ["--measure", "requested", "--measure"]]
)
def test_several_measures_can_be_chosen(runner: CliRunner, path: str, options: list[str]) -> None:
    if options[-1] == "--measure":
        options = [*options, "active"]
    found = json.loads(ask(runner, path, "--format", "json", *options).stdout)
    assert [one["measure"] for one in found["devices"]] == ["requested", "active"] * 2


def test_groups_add_up_to_the_device(runner: CliRunner, path: str) -> None:
    options = ["--by", "file", "--top", "1", "--device", "1", "--format", "json"]
    (one,) = json.loads(ask(runner, path, *options).stdout)["devices"]
    assert one["device"] == 1
    stacked = [a + b for a, b in zip(one["groups"][0]["bytes"], one["rest_bytes"], strict=True)]
    assert stacked == one["max_bytes"]


def test_csv_is_written_to_a_file(runner: CliRunner, path: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    result = ask(runner, path, "--format", "csv", "--points", "9", "-o", str(out))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert out.read_text().startswith("device,measure,event_index,")
    assert out.read_text().count("\n") == 1 + 9 + 9
    again = ask(runner, path, "--format", "csv", "-o", str(out))
    assert again.exit_code == 2
    assert "already exists" in again.stderr
    assert ask(runner, path, "--format", "csv", "-o", str(out), "--force").exit_code == 0


def test_text_file_has_no_colour(
    runner: CliRunner, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = tmp_path / "out.txt"
    assert ask(runner, path, "-o", str(out)).exit_code == 0
    assert "\x1b" not in out.read_text(encoding="utf-8")
    assert "\x1b[36m" in ask(runner, path).stdout


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ["png", "svg"])
def test_pictures_are_written(runner: CliRunner, path: str, tmp_path: Path, fmt: str) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / f"out.{fmt}"
    result = ask(runner, path, "--format", fmt, "-o", str(out), "--by", "stack")
    assert (result.exit_code, result.stderr) == (0, "")
    piped = ask(runner, path, "--format", fmt, "--by", "stack")
    assert piped.stdout_bytes == out.read_bytes()


def test_picture_is_not_written_to_a_terminal(
    runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("memreplay.commands.shared.output.sys", SimpleNamespace(stdout=Terminal()))
    result = ask(runner, path, "--format", "png")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "stdout is a terminal; write the picture to a file (-o FILE)" in result.stderr


def test_pictures_need_matplotlib(
    runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = ask(runner, path, "--format", "svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pictures need matplotlib" in result.stderr
    assert "(the extra 'plot')" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options, words",
    [
        (["--measure", "reserved", "--by", "file"], "grouped by pool or stream"),
        (["--measure", "peak"], "'peak' is not one of requested, held"),
        (["--points", "0"], "0 is not between 1 and 1,000,000"),
        (["--points", "1000001"], "not between 1 and"),
        (["--top", "-1"], "-1 is below 0"),
        (["--only", "pool=9:9"], "no pool 9:9"),
    ],
)
def test_usage_errors_are_reported(
    runner: CliRunner, path: str, options: list[str], words: str
) -> None:
    result = ask(runner, path, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_time_axis_needs_times(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "old.pkl"
    file.write_bytes(build.dump(SnapshotBuilder(times=False).alloc(512, 9).build()))
    assert "across   events" in ask(runner, str(file)).stdout
    result = ask(runner, str(file), "--x", "time")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "have no times; use --x event" in result.stderr
    assert "have no times" in ask(runner, str(file), "--x", "utc").stderr


def test_range_of_a_single_event_is_shown(runner: CliRunner, path: str) -> None:
    result = ask(runner, path, "--device", "0", "--x", "utc", "--from", "3", "--to", "4")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "time (UTC), from 2023-11-14 22:13:20.075000 UTC" in result.stdout


def test_strict_fails_without_segments(runner: CliRunner, path: str) -> None:
    assert ask(runner, path, "--strict").exit_code == 1  # no segments
    assert ask(runner, path, "--strict", "--format", "csv").exit_code == 1
