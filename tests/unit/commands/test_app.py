"""Tests of commands/app.py."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.listed import COMMANDS
from tests import build

HEAVY = ("numpy", "rich")
# Options are declared next to the command's function, which imports these modules.
OF_COMMANDS = ("memreplay._core", "memreplay.snapshot.snapshot")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_starts_with_the_same_words_as_the_list(name: str) -> None:
    command = import_module(f"memreplay.commands.{name}.command").command
    assert command.name == name
    assert command.get_short_help_str(limit=100) == COMMANDS[name]


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["peak", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
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
        "0 success, 1 a problem was found (gate, simulate --total-memory, leaks --fail, --strict),"
        " 2 usage error"
    ) in words
    assert "4 truncated snapshot, 5 the file can't answer this (steps, leaks), 6 the" in words


def test_commands_have_a_short_help_option_in_any_context() -> None:
    """A context that wasn't made by parsing a command line lacks the group's settings."""
    command = Command("fresh")
    option = command.get_help_option(click.Context(command))
    assert option is not None
    assert option.opts == ["-h", "--help"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(runner: CliRunner, name: str) -> None:
    result = runner.invoke(app, [name, "-h"])
    assert result.exit_code == 0
    assert f"  memreplay {name} " in result.output or f"$(memreplay {name} " in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_fits_one_screen(runner: CliRunner, name: str) -> None:
    # The runner makes help 80 columns wide, but on a terminal of 80 columns, click uses 78.
    done = runner.invoke(app, [name, "--help"], prog_name="memreplay", terminal_width=78)
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100  # examples may be wider than the terminal


@pytest.mark.parametrize("name", ["peak", "at", "timeline", "oom", "dryrun"])
def test_described_default_has_no_parentheses(runner: CliRunner, name: str) -> None:
    words = " ".join(runner.invoke(app, [name, "--help-all"]).output.split())
    assert "[default: 10, or 20 in JSON]" in words
    assert "default: (" not in words


def test_number_of_commands_is_limited() -> None:
    assert len(COMMANDS) <= 26


def test_version_is_printed(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("memreplay ")


def test_help_is_shown_by_default(runner: CliRunner) -> None:
    result = runner.invoke(app, [])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == runner.invoke(app, ["--help"]).stdout
    assert "\nStart here:\n" in result.stderr


def test_unknown_command_is_a_usage_error(runner: CliRunner) -> None:
    result = runner.invoke(app, ["pek"])
    assert result.exit_code == 2
    assert "no such command 'pek'" in result.stderr


@pytest.mark.parametrize(
    "name, words",
    [
        ("pek", "did you mean peak?"),
        ("sumary", "did you mean summary?"),
        ("nonsense", "memreplay --help lists them"),
    ],
)
def test_unknown_command_suggests_similar_commands(
    runner: CliRunner, name: str, words: str
) -> None:
    result = runner.invoke(app, [name, "--top", "3"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no such command {name!r}; " in result.stderr
    assert result.stderr.endswith(f"{words}\n")


@pytest.mark.parametrize("name", ["snap.pickle", "recording", "-", "runs/1.dump"])
def test_file_argument_runs_report(
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
def test_missing_file_is_an_error(runner: CliRunner, name: str) -> None:
    result = runner.invoke(app, [name])
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == runner.invoke(app, ["report", name]).stderr


@pytest.mark.parametrize(
    "given, said",
    [
        (
            ["snap.pkl", "--by", "module"],
            (
                "memreplay FILE runs memreplay report FILE, which has no option --by; peak, at,"
                " timeline and 6 more have it: memreplay peak FILE --by …"
            ),
        ),
        (
            ["leaks", "snap.pkl", "--checkpoint", "x"],
            (
                "memreplay leaks has no option --checkpoint; simulate has it: memreplay simulate"
                " FILE --checkpoint …"
            ),
        ),
        (
            ["peak", "snap.pkl", "--nonsense"],
            "no such option '--nonsense'; see memreplay peak --help",
        ),
        (["--nonsense"], "no such option '--nonsense'; see memreplay --help"),
        (["peak"], "missing argument 'FILE'; see memreplay peak --help"),
        (
            ["peak", "a", "b\x1b"],
            "got unexpected extra argument (b\\x1b); see memreplay peak --help",
        ),
        (
            ["peak", "a", "--top", "x"],
            "invalid value for '-n' / '--top': 'x' is not a valid integer",
        ),
    ],
)
def test_usage_error_takes_one_line_and_helps(
    runner: CliRunner, given: list[str], said: str
) -> None:
    result = runner.invoke(app, given, prog_name="memreplay")
    assert (result.exit_code, result.stdout) == (2, "")
    # click's versions quote differently.
    plain = result.stderr.replace(": --nonsense", " '--nonsense'").replace("option:", "option")
    assert plain == f"memreplay: error: {said}\n"
