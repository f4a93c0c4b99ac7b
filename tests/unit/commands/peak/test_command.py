"""Tests of commands/peak/command.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.groups.calltree import TreeShape
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.app import app
from memreplay.commands.peak.text import peak_document
from memreplay.errors import TruncatedError, UsageError
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests.unit.commands.conftest import FakeLibrary
from tests.unit.commands.results import NO_EVENTS_PEAK, PEAK


def test_text(runner: CliRunner, library: FakeLibrary) -> None:
    result = runner.invoke(app, ["peak", "snap.pkl"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == render_plain(peak_document(PEAK), width=100) + "\n"
    assert library.snapshots[0].closed


def test_json(runner: CliRunner, library: FakeLibrary) -> None:
    result = runner.invoke(app, ["peak", "snap.pkl", "--format", "json"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == render_json(PEAK) + "\n"
    assert json.loads(result.stdout)["schema"] == "memreplay.peak/1"


def test_options_reach_the_analysis(runner: CliRunner, library: FakeLibrary) -> None:
    runner.invoke(app, ["peak", "snap.pkl"])
    assert library.peak_options == {
        "measure": "requested",
        "device": None,
        "by": None,
        "top": 10,  # what fits a screen
        "all_frames": False,
        "peaks": 0,
        "pool": None,
        "stream": None,
        "strict": False,
        "filters": None,
        "rules": DEFAULT_RULES,
        "fold": True,
        "tree": None,
    }
    runner.invoke(app, ["peak", "snap.pkl", "--format", "json"])
    assert (library.peak_options["top"], library.peak_options["fold"]) == (20, False)
    options = ["--by", "file", "--top", "0", "--all-frames", "--device", "1"]
    options += [
        "--measure",
        "held",
        "--peaks",
        "2",
        "--pool",
        "default",
        "--stream",
        "7",
        "--strict",
        "--include",
        "a",
        "--include",
        "b",
        "--exclude",
        "c",
        "--min-bytes",
        "1K",
        "--only-live-at-end",
        "--only-carried-over",
        "--tree",
        "--tree-depth",
        "3",
        "--tree-share",
        "5%",
        "--inverted",
    ]
    runner.invoke(app, ["peak", "snap.pkl", *options])
    assert library.peak_options == {
        "measure": "held",
        "device": None,
        "by": "file",
        "top": 0,
        "all_frames": True,
        "peaks": 2,
        "pool": (0, 0),
        "stream": 7,
        "strict": True,
        "filters": Filters(("a", "b"), ("c",), 1024, only_live_at_end=True, only_carried=True),
        "rules": DEFAULT_RULES,
        "fold": False,
        "tree": TreeShape(3, 0.05, whole=True, inverted=True),
    }
    assert library.reading["device"] == 1


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_strict(runner: CliRunner, library: FakeLibrary, fmt: str) -> None:
    arguments = ["peak", "snap.pkl", "--format", fmt]
    assert runner.invoke(app, [*arguments, "--strict"]).exit_code == 0
    library.peak = NO_EVENTS_PEAK
    assert runner.invoke(app, arguments).exit_code == 0
    result = runner.invoke(app, [*arguments, "--strict"])
    assert result.exit_code == 1
    assert result.stdout  # the report is shown all the same
    library.peak = replace(PEAK, devices=(*PEAK.devices, *NO_EVENTS_PEAK.devices))
    assert runner.invoke(app, [*arguments, "--strict"]).exit_code == 1
    library.errors["snap.pkl"] = TruncatedError("cut")
    assert runner.invoke(app, [*arguments, "--strict"]).exit_code == 4


def test_colour_where_it_is_forced(runner: CliRunner, library: FakeLibrary) -> None:
    result = runner.invoke(app, ["peak", "snap.pkl"], env={"FORCE_COLOR": "1"}, color=True)
    assert "\x1b[1mdevice 0: peak 10.0 GiB requested" in result.stdout


@pytest.mark.parametrize(
    "error, exit_code, words",
    [
        (FileNotFoundError(), 3, "there is no such file"),
        (TruncatedError("need 8 bytes, 3 left"), 4, "need 8 bytes, 3 left"),
    ],
)
def test_a_file_that_cannot_be_read(
    runner: CliRunner,
    library: FakeLibrary,
    error: Exception,
    exit_code: int,
    words: str,
) -> None:
    library.errors["snap.pkl"] = error
    result = runner.invoke(app, ["peak", "snap.pkl", "--format", "json"])
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert result.stderr == f"memreplay: error: snap.pkl: {words}\n"


def test_a_device_that_is_not_there(runner: CliRunner, library: FakeLibrary) -> None:
    library.peak_error = UsageError("no device 5; there are 0 and 1")
    result = runner.invoke(app, ["peak", "snap.pkl", "--device", "5"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "memreplay: error: snap.pkl: no device 5; there are 0 and 1\n"
    assert library.snapshots[0].closed


def test_an_interrupt(runner: CliRunner, library: FakeLibrary) -> None:
    library.errors["snap.pkl"] = KeyboardInterrupt()
    result = runner.invoke(app, ["peak", "snap.pkl"])
    assert (result.exit_code, result.output) == (130, "")


def test_a_filter_that_is_no_regular_expression(runner: CliRunner, library: FakeLibrary) -> None:
    result = runner.invoke(app, ["peak", "snap.pkl", "--exclude", "("])
    assert result.exit_code == 2
    assert "'(' is not a regular expression" in result.stderr
    assert not library.snapshots


def test_categories_are_those_of_the_configuration(
    runner: CliRunner, library: FakeLibrary, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text('category_defaults = false\n[[category]]\nname = "a"\nframes = "b"\n')
    arguments = ["peak", "snap.pkl", "--config", str(config)]
    runner.invoke(app, [*arguments, "--by", "file,category"])
    assert library.peak_options["rules"] == (Rule("a", "b"),)
    config.write_text("[")
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"memreplay: error: {config}: not valid TOML")
    result = runner.invoke(app, [*arguments, "--no-config"])
    assert result.exit_code == 2
    assert "--no-config contradict" in result.stderr
    assert runner.invoke(app, ["peak", "s", "--no-config", "--by", "category"]).exit_code == 0


def test_the_tree_is_outward_where_asked(runner: CliRunner, library: FakeLibrary) -> None:
    runner.invoke(app, ["peak", "snap.pkl", "--tree"])
    assert library.peak_options["tree"] == TreeShape(0, 0.01)
    runner.invoke(app, ["peak", "snap.pkl", "--tree", "--inverted"])
    assert library.peak_options["tree"] == TreeShape(0, 0.01, inverted=True)
    library.snapshots.clear()
    for command in (["peak", "snap.pkl"], ["at", "snap.pkl", "--end"]):
        result = runner.invoke(app, [*command, "--inverted"])
        assert result.exit_code == 2
        assert "--inverted turns a tree of calls around: give --tree, too" in result.stderr
    assert not library.snapshots


@pytest.mark.parametrize("share", ["-1%", "101%", "1.5", "nan", "x", "%"])
def test_a_share_that_is_none(runner: CliRunner, library: FakeLibrary, share: str) -> None:
    result = runner.invoke(app, ["peak", "snap.pkl", "--tree", "--tree-share", share])
    assert result.exit_code == 2
    assert "is not a share" in result.stderr
    assert not library.snapshots
