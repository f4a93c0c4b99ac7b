"""Tests of commands/summary/command.py."""

from __future__ import annotations

import json

from click.testing import CliRunner
from msgspec.structs import replace

from memreplay.commands.app import app
from memreplay.commands.summary.text import summary_document
from memreplay.errors import SnapshotError, TruncatedError
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests.unit.commands.conftest import FakeLibrary
from tests.unit.commands.results import ODD_SUMMARY, SUMMARY


def text_of(file: str) -> str:
    return render_plain(summary_document(replace(SUMMARY, file=file)), width=100) + "\n"


def test_text_of_several_files(runner: CliRunner, library: FakeLibrary) -> None:
    result = runner.invoke(app, ["summary", "a", "b"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == text_of("a") + "\n" + text_of("b")
    assert all(snapshot.closed for snapshot in library.snapshots)


def test_json_of_one_file_is_indented(runner: CliRunner, library: FakeLibrary) -> None:
    result = runner.invoke(app, ["summary", "a", "--format", "json"])
    assert result.stdout == render_json(replace(SUMMARY, file="a")) + "\n"


def test_json_of_several_files_is_one_a_line(runner: CliRunner, library: FakeLibrary) -> None:
    library.errors["b"] = SnapshotError("no")
    result = runner.invoke(app, ["summary", "a", "b", "c", "--format", "json"])
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == ["a", "c"]


def test_json_of_several_files_is_lines_even_if_one_is_left(
    runner: CliRunner, library: FakeLibrary
) -> None:
    library.errors["b"] = SnapshotError("no")
    result = runner.invoke(app, ["summary", "a", "b", "--format", "json"])
    assert result.stdout.count("\n") == 1


def test_a_bad_file_does_not_stop_the_others(runner: CliRunner, library: FakeLibrary) -> None:
    library.errors["a"] = TruncatedError("cut")
    library.errors["c"] = FileNotFoundError()
    result = runner.invoke(app, ["summary", "a", "b", "c"])
    assert result.exit_code == 4
    assert result.stdout == text_of("b")
    assert result.stderr == (
        "memreplay: error: a: cut\nmemreplay: error: c: there is no such file\n"
    )


def test_strict(runner: CliRunner, library: FakeLibrary) -> None:
    assert runner.invoke(app, ["summary", "a", "b", "--strict"]).exit_code == 0
    library.summary = ODD_SUMMARY
    assert runner.invoke(app, ["summary", "a", "b"]).exit_code == 0
    result = runner.invoke(app, ["summary", "a", "b", "--strict"])
    assert result.exit_code == 1
    assert result.stdout.count("not trustworthy (reserved: exact)") == 2
    library.errors["b"] = SnapshotError("no")
    assert runner.invoke(app, ["summary", "a", "b", "--strict"]).exit_code == 3
