"""Tests of commands/summary/command.py, on small files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.summary.text import summary_document
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create two good snapshots, an untrustworthy one, a truncated one, and a file that isn't a
    snapshot.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        builder = SnapshotBuilder().alloc(512, 600).finish_segments()
        (tmp_path / name).write_bytes(build.dump(builder.build()))
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "odd").write_bytes(build.dump(SnapshotBuilder().alloc(512, 600).build()))
    (tmp_path / "cut").write_bytes(whole[:-9])
    (tmp_path / "junk").write_bytes(b"not a pickle")
    return tmp_path


def ask(runner: CliRunner, *arguments: str) -> Result:
    return runner.invoke(app, ["summary", *arguments])


def text_of(file: str) -> str:
    return render_plain(summary_document(mr.summary(file)), width=100) + "\n"


def test_several_files_are_separated_by_an_empty_line(runner: CliRunner) -> None:
    result = ask(runner, "a", "b")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == text_of("a") + "\n" + text_of("b")


def test_json_of_one_file_is_indented(runner: CliRunner) -> None:
    result = ask(runner, "a", "--json")
    assert result.stdout == render_json(mr.summary("a")) + "\n"
    assert result.stdout.count("\n") > 10


def test_several_files_give_json_lines(runner: CliRunner) -> None:
    result = ask(runner, "a", "junk", "b", "--json")
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == ["a", "b"]
    assert result.exit_code == 3
    # The output is JSON lines even if only one file can be read.
    assert ask(runner, "a", "junk", "--json").stdout.count("\n") == 1


def test_bad_file_does_not_stop_the_others(runner: CliRunner) -> None:
    result = ask(runner, "cut", "b", "none")
    assert result.exit_code == 4
    assert result.stdout == text_of("b")
    first, second = result.stderr.splitlines()
    assert first.startswith("memreplay: error: cut: truncated pickle")
    assert second == "memreplay: error: none: no such file"


def test_strict_fails_for_untrusted_numbers(runner: CliRunner) -> None:
    assert ask(runner, "a", "b", "--strict").exit_code == 0
    assert ask(runner, "a", "odd").exit_code == 0
    result = ask(runner, "a", "odd", "--strict")
    assert result.exit_code == 1
    assert result.stdout == text_of("a") + "\n" + text_of("odd")
    assert ask(runner, "junk", "odd", "--strict").exit_code == 3


def test_only_the_range_is_summarized(runner: CliRunner) -> None:
    (device,) = json.loads(ask(runner, "a", "--from", "0", "--device", "0", "--json").stdout)[
        "devices"
    ]
    assert device["events"] == 1
