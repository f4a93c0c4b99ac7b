"""Tests of commands/app.py."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.listed import COMMANDS
from tests import build

HEAVY = ("numpy", "rich")
# A command's options are declared next to the function that answers, which needs these.
OF_COMMANDS = ("memreplay._core", "memreplay.snapshot.snapshot")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_what_the_list_says(name: str) -> None:
    command = import_module(f"memreplay.commands.{name}.command").command
    assert command.name == name
    assert command.get_short_help_str(limit=100) == COMMANDS[name]


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["peak", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from memreplay.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {HEAVY!r} if {arguments!r} == ["peak", "--help"] else {HEAVY + OF_COMMANDS!r}
loaded = [name for name in heavy if name in sys.modules]
if {arguments!r} == ["--help"]:
    from msgspec import _version
    # Old versions of msgspec load it themselves.
    of_msgspec = {{"json"}} & set(vars(_version))
    loaded += {{"memreplay.commands.peak.command", "json"}} & set(sys.modules) - of_msgspec
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_help_lists_the_commands_and_the_exit_codes(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    width = max(map(len, COMMANDS))
    for name, text in COMMANDS.items():
        assert f"  {name:{width}}  {text}\n" in result.output
    assert "Examples:\n    memreplay snap.pkl\n" in result.output
    words = " ".join(result.output.split())
    assert (
        "0 fine, 1 a finding (gate, simulate --total-memory, leaks --fail, --strict), 2 wrong usage"
        in words
    )
    assert "4 a snapshot that is cut off, 5 nothing to be told (steps, leaks)." in words


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_examples(runner: CliRunner, name: str) -> None:
    result = runner.invoke(app, [name, "-h"])
    assert result.exit_code == 0
    assert f"  memreplay {name} " in result.output or f"$(memreplay {name} " in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_of_a_command_fits_a_screen(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = runner.invoke(app, [name, "--help"]).stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100  # an example may be longer than the terminal is wide


def test_there_are_no_more_commands_than_people_learn() -> None:
    assert len(COMMANDS) <= 25


def test_version(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("memreplay ")


def test_without_arguments_there_is_help(runner: CliRunner) -> None:
    result = runner.invoke(app, [])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == runner.invoke(app, ["--help"]).stdout
    assert "\nStart here:\n" in result.stderr


def test_an_unknown_command_is_wrong_usage(runner: CliRunner) -> None:
    result = runner.invoke(app, ["pek"])
    assert result.exit_code == 2
    assert "No such command 'pek'" in result.stderr


@pytest.mark.parametrize(
    "name, words",
    [
        ("pek", "did you mean peak?"),
        ("sumary", "did you mean summary?"),
        ("nonsense", "memreplay --help lists them"),
    ],
)
def test_what_is_no_command_says_what_may_have_been_meant(
    runner: CliRunner, name: str, words: str
) -> None:
    result = runner.invoke(app, [name, "--top", "3"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"No such command {name!r}; " in result.stderr
    assert result.stderr.endswith(f"{words}\n")


@pytest.mark.parametrize("name", ["snap.pickle", "recording", "-", "runs/1.dump"])
def test_a_file_alone_is_reported_on(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    data = build.dump(build.SnapshotBuilder().alloc(512, 512).build())
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    if name != "-":
        (tmp_path / name).write_bytes(data)
    said = runner.invoke(app, ["report", name, "--format", "json"], input=data)
    assert said.exit_code == 0
    assert runner.invoke(app, [name, "--format", "json"], input=data).stdout == said.stdout


@pytest.mark.parametrize("name", ["snap.pickle", "runs/1.dump"])
def test_a_file_that_is_not_there(runner: CliRunner, name: str) -> None:
    result = runner.invoke(app, [name])
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == runner.invoke(app, ["report", name]).stderr
