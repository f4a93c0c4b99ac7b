"""Tests of commands/shared/options.py, on a command that has them all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from msgspec import to_builtins

from memreplay.commands.app import app
from memreplay.commands.shared import options
from memreplay.commands.shared.source import Reading
from memreplay.io import sources
from memreplay.snapshot.model import MEASURES
from tests import build


@click.command()
@click.argument("files", nargs=-1, required=True)
@options.format_option
@options.reading_options
@options.top_option
@options.by_option_for("what is held")
@options.all_frames_option
@options.measure_option
@options.part_options
@options.strict_option
def every(**values: object) -> None:
    """Print what was given."""
    reading = values.pop("reading")
    assert isinstance(reading, Reading)
    click.echo(json.dumps(values | to_builtins(reading)))


def test_defaults(runner: CliRunner) -> None:
    result = runner.invoke(every, ["a", "-"])
    assert json.loads(result.output) == {
        "files": ["a", "-"],
        "fmt": "text",
        "device": None,
        "start": None,
        "stop": None,
        "salvage": False,
        "limits": [],
        "pick": None,
        "config": {"config_file": None, "no_config": True, "folders": [], "_read": []},
        "top": 20,
        "by": None,
        "measure": "requested",
        "pool": None,
        "stream": None,
        "strict": False,
        "all_frames": False,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "--format", "xml"],
        ["a", "--top", "-1"],
        ["a", "--by", "x"],
        ["a", "--device", "a"],
        ["a", "--from", "soon"],
        ["a", "--to", "-5"],
        ["a", "--to", "5 parsecs"],
        ["a", "--limit", "string_bytes"],
        ["a", "--limit", "memory=5"],
        ["a", "--limit", "string_bytes=0"],
        ["a", "--measure", "free"],
        ["a", "--peaks", "-1"],
        ["a", "--pool", "nonsense"],
        ["a", "--stream", "x"],
    ],
)
def test_wrong_usage(runner: CliRunner, arguments: list[str]) -> None:
    assert runner.invoke(every, arguments).exit_code == 2


def test_help_is_for_people(runner: CliRunner) -> None:
    text = " ".join(runner.invoke(every, ["--help"]).output.split())
    assert "[default: 20]" in text
    assert "x>=0" not in text
    assert "(all)" not in text
    assert json.loads(runner.invoke(every, ["a", "--top", str(2**64)]).output)["top"] == 2**63 - 1
    assert "-1 is below 0" in runner.invoke(every, ["a", "--top", "-1"]).stderr


def test_what_to_read(runner: CliRunner) -> None:
    arguments = ["a", "--device", "3", "--from", "1200", "--to", "1.5s", "--salvage"]
    arguments += ["--limit", "string_bytes=128M", "--limit", "nesting_depth=50"]
    found = json.loads(runner.invoke(every, arguments).output)
    assert (found["device"], found["salvage"]) == (3, True)
    assert found["start"] == {"kind": "event", "value": 1200}
    assert found["limits"] == [["string_bytes", 128 << 20], ["nesting_depth", 50]]
    assert found["stop"] == {"kind": "elapsed", "value": 1_500_000}


def test_measures_and_parts(runner: CliRunner) -> None:
    arguments = ["a", "--measure", "held", "--by", "pool", "--strict"]
    arguments += ["--pool", "0:1", "--stream", "0x10"]
    found = json.loads(runner.invoke(every, arguments).output)
    assert (found["measure"], found["by"]) == ("held", "pool")
    assert (found["pool"], found["stream"], found["strict"]) == ([0, 1], 16, True)


def test_the_choices_are_the_models() -> None:
    choices = {
        param.name: param.type.choices
        for param in every.params
        if isinstance(param.type, click.Choice)
    }
    assert tuple(choices["measure"]) == MEASURES


def test_a_file_that_may_not_be_read_is_one_line(
    tmp_path: Path, runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no wrong usage, of which click would say three."""
    snap = tmp_path / "snap.pkl"
    snap.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10).build()))
    out = ["export", str(snap), "--force", "-o", str(tmp_path / "out.pkl")]
    (tmp_path / "out.pkl").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    assert runner.invoke(app, out).exit_code == 0  # whoever asks that may be told wrong

    def refuse(name: str, mode: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(sources, "io", SimpleNamespace(FileIO=refuse))
    for args in (["peak", str(snap)], out):
        done = runner.invoke(app, args)
        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr == (
            f"memreplay: error: {snap}: permission denied; it belongs to someone else or is not"
            " readable\n"
        )
