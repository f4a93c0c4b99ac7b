"""Tests of commands/diff/command.py, on small files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.render.schemas import check_against


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    found = []
    for name, size in (("base", 900), ("new", 1500)):
        builder = SnapshotBuilder().alloc(512, 50, frames=[("main", "train.py", 1)])
        builder.alloc(4096, size, frames=[("forward", "model.py", 7), ("main", "train.py", 1)])
        file = tmp_path / f"{name}.pkl"
        file.write_bytes(build.dump(builder.build()))
        found.append(str(file))
    return found


def test_text_shows_the_change_and_its_line(runner: CliRunner, paths: list[str]) -> None:
    result = runner.invoke(app, ["diff", *paths])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "device 0: peak 950 B -> 1.5 KiB requested, +600 B (+63.2%)" in result.stdout
    assert "forward  model.py:7" in result.stdout


def test_json_rows_add_up_to_the_change(runner: CliRunner, paths: list[str]) -> None:
    result = runner.invoke(app, ["diff", *paths, "--format", "json", "--top", "0", "--unchanged"])
    found = json.loads(result.stdout)
    check_against("diff-1.json", found)
    (device,) = found["devices"]
    assert [row["status"] for row in device["rows"]] == ["grew", "same"]
    assert sum(row["change_bytes"] for row in device["rows"]) == device["change_bytes"] == 600


def test_moment_must_exist_on_both_sides(runner: CliRunner, paths: list[str]) -> None:
    result = runner.invoke(
        app, ["diff", *paths, "--at", "0", "--by", "function", "--format", "json"]
    )
    found = json.loads(result.stdout)
    assert found["moment"] == {"kind": "event", "value": 0, "name": None, "edge": None}
    assert found["devices"][0]["rows"] == []
    for options in (["--at", "9"], ["--device", "4"], ["--at", "x"]):
        result = runner.invoke(app, ["diff", *paths, *options])
        assert (result.exit_code, result.stdout) == (2, ""), options


def test_unreadable_file_is_named(runner: CliRunner, paths: list[str]) -> None:
    for files in ([paths[0], "/no/such"], ["/no/such", paths[0]]):
        result = runner.invoke(app, ["diff", *files])
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr == "memreplay: error: /no/such: no such file\n"


def test_strict_fails_for_untrusted_numbers(runner: CliRunner, paths: list[str]) -> None:
    assert runner.invoke(app, ["diff", *paths, "--strict"]).exit_code == 1
