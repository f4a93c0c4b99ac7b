"""Tests of commands/shared/declaring.py, on a command with most of the common options."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from msgspec import to_builtins

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.app import app
from memreplay.commands.shared.declaring import Files, as_command
from memreplay.commands.shared.showing import ShownFrames
from memreplay.commands.shared.source import Reading
from memreplay.io import sources
from memreplay.snapshot.model import MEASURES
from tests import build


@as_command("every", examples=("every a",))
def every(files: Files, selection: Selection, reading: Reading, shown: ShownFrames) -> int:
    """Print the arguments."""
    given = {"files": files} | {
        key: value for one in (selection, reading, shown) for key, value in to_builtins(one).items()
    }
    click.echo(json.dumps(given | {"rules": None, "config": None}))
    return 0


def test_options_have_defaults(runner: CliRunner) -> None:
    found = json.loads(runner.invoke(every, ["a", "-"]).output)
    expected = {
        "files": ["a", "-"],
        "format": "text",
        "device": None,
        "start": None,
        "stop": None,
        "salvage": False,
        "limits": [],
        "pick": None,
        "top": 20,
        "by": None,
        "measure": "requested",
        "pool": None,
        "stream": None,
        "strict": False,
        "all_frames": False,
    }
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "--format", "xml"],
        ["a", "--top", "-1"],
        ["a", "--by", "x"],
        ["a", "--device", "a"],
        ["a", "--from", "1.5"],
        ["a", "--to", "-5"],
        ["a", "--to", "5 parsecs"],
        ["a", "--limit", "string_bytes"],
        ["a", "--limit", "memory=5"],
        ["a", "--limit", "string_bytes=0"],
        ["a", "--measure", "free"],
        ["a", "--peaks", "-1"],
        ["a", "--only", "pool=nonsense"],
        ["a", "--only", "stream=x"],
    ],
)
def test_usage_errors_are_reported(runner: CliRunner, arguments: list[str]) -> None:
    assert runner.invoke(every, arguments).exit_code == 2


def test_one_option_can_set_several_fields(runner: CliRunner) -> None:
    keys = ["live-at-end", "stream=3", "min-bytes=1MiB"]
    found = json.loads(
        runner.invoke(every, ["a", *(word for key in keys for word in ("--only", key))]).output
    )
    filters = found["filters"]
    assert (found["stream"], found["pool"]) == (3, None)
    assert (filters["only_live_at_end"], filters["only_carried_over"]) == (True, False)
    assert filters["min_bytes"] == 1 << 20


@pytest.mark.parametrize(
    "key, words",
    [
        ("live", "unknown key 'live'; known keys: pool=ID, stream=N, min-bytes=SIZE, live-at-end"),
        ("live-at-end=yes", "live-at-end takes no value"),
        ("stream", "stream needs a value: stream=N"),
        ("min-bytes=much", "min-bytes: 'much' is not a size"),
    ],
)
def test_unknown_key_is_an_error(runner: CliRunner, key: str, words: str) -> None:
    result = runner.invoke(every, ["a", "--only", key])
    assert (result.exit_code, words in result.stderr) == (2, True)


def test_key_with_one_value_may_be_given_only_once(runner: CliRunner) -> None:
    both = ["a", "--only", "stream=3", "--only", "stream=7"]
    result = runner.invoke(every, both, standalone_mode=False)
    assert str(result.exception) == "--only stream takes one value; give it once"


def test_keys_are_completed() -> None:
    (only,) = (param for param in every.params if "--only" in param.opts)
    context = click.Context(every)
    found = [one.value for one in only.type.shell_complete(context, only, "")]
    assert found[:3] == ["pool=", "stream=", "min-bytes="]
    assert [one.value for one in only.type.shell_complete(context, only, "l")] == ["live-at-end"]


def test_help_is_readable(runner: CliRunner) -> None:
    text = " ".join(runner.invoke(every, ["--help"]).output.split())
    assert "[default: 20]" in text
    assert "x>=0" not in text
    assert json.loads(runner.invoke(every, ["a", "--top", str(2**64)]).output)["top"] == 2**63 - 1
    assert "-1 is below 0" in runner.invoke(every, ["a", "--top", "-1"]).stderr


def test_device_range_and_limits_are_parsed(runner: CliRunner) -> None:
    arguments = ["a", "--device", "3", "--from", "1200", "--to", "1.5s", "--salvage"]
    arguments += ["--limit", "string_bytes=128M", "--limit", "nesting_depth=50"]
    found = json.loads(runner.invoke(every, arguments).output)
    assert (found["device"], found["salvage"]) == (3, True)
    assert (found["start"]["kind"], found["start"]["value"]) == ("event", 1200)
    assert found["limits"] == [["string_bytes", 128 << 20], ["nesting_depth", 50]]
    assert (found["stop"]["kind"], found["stop"]["value"]) == ("elapsed", 1_500_000)


def test_measure_and_filters_are_parsed(runner: CliRunner) -> None:
    arguments = ["a", "--measure", "held", "--by", "pool", "--strict"]
    arguments += ["--only", "pool=0:1", "--only", "stream=0x10"]
    found = json.loads(runner.invoke(every, arguments).output)
    assert (found["measure"], found["by"]) == ("held", "pool")
    assert (found["pool"], found["stream"], found["strict"]) == ([0, 1], 16, True)


def test_choices_match_the_models() -> None:
    (measure,) = (param for param in every.params if param.name == "measure")
    assert isinstance(measure.type, click.Choice)
    assert tuple(measure.type.choices) == MEASURES


@pytest.mark.parametrize(
    "begun, offered",
    [
        ("f", {"function", "file"}),
        ("F", {"function", "file"}),
        ("category,si", {"category,size"}),
        ("x", set()),
    ],
)
def test_shell_gets_suggestions(begun: str, offered: set[str]) -> None:
    (by,) = (param for param in every.params if param.name == "by")
    context = click.Context(every)
    assert {item.value for item in by.shell_complete(context, begun)} == offered


def test_unreadable_file_takes_one_line(
    tmp_path: Path, runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a usage error, click would print three lines."""
    snap = tmp_path / "snap.pkl"
    snap.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10).build()))
    out = ["export", str(snap), "--force", "-o", str(tmp_path / "out.pkl")]
    (tmp_path / "out.pkl").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    assert runner.invoke(app, out).exit_code == 0  # os.access may be wrong

    def refuse(name: str, mode: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(sources, "io", SimpleNamespace(FileIO=refuse))
    for args in (["peak", str(snap)], out):
        done = runner.invoke(app, args)
        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr == (
            f"memreplay: error: {snap}: permission denied; check the file's owner and mode\n"
        )


def test_folder_in_place_of_a_file_is_a_usage_error(runner: CliRunner, tmp_path: Path) -> None:
    done = runner.invoke(app, ["peak", "x.pkl", "--config", str(tmp_path)])
    assert done.exit_code == 2
    words = f"invalid value for '--config': File {str(tmp_path)!r} is a directory"
    assert done.output == f"memreplay: error: {words}\n"


def test_shell_completes_paths() -> None:
    command = app.get_command(click.Context(app), "peak")
    assert command is not None
    context = click.Context(command)
    for param in command.params:
        if param.name in ("file", "config"):
            found = param.shell_complete(context, "tra")
            assert [(one.value, one.type) for one in found] == [("tra", "file")]
