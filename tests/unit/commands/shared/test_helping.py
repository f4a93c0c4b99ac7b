"""Tests of commands/shared/helping.py: help in groups, exit codes, old names of options."""

from __future__ import annotations

import click
import pytest

from memreplay import deprecation
from memreplay.commands.shared.helping import GROUPS, Command
from tests.commanding import command_runner


@click.command(cls=Command)
@click.argument("file")
@click.option("-o", "--output", help="Where to.")
@click.option("--only-carried-over", "filter_only_carried", is_flag=True, help="Only old.")
@click.option("--own", help="Its own.")
def command(file: str, **options: object) -> int | None:
    """Do it."""
    click.echo(f"{file} {options['filter_only_carried']}")
    return 3 if file == "three" else None


@click.command(cls=Command)
@click.argument("file")
def without(file: str) -> None:
    """Do something else."""


def test_what_a_command_returns_is_its_exit_code() -> None:
    assert command_runner().invoke(command, ["three"]).exit_code == 3
    assert command_runner().invoke(command, ["none"]).exit_code == 0


def test_options_are_listed_in_groups() -> None:
    lines = command_runner().invoke(command, ["--help"]).stdout.splitlines()
    heads = [line for line in lines if line.rstrip(":") in GROUPS]
    assert heads == ["Options:", "Selection:", "Output:"]
    at = {word: i for i, line in enumerate(lines) for word in line.split()[:2]}
    assert at["Options:"] < at["--own"] < at["Selection:"] < at["--only-carried-over"]
    assert at["--only-carried-over"] < at["Output:"] < at["-o,"]


def test_an_old_name_still_works_and_says_the_new_one() -> None:
    done = command_runner().invoke(command, ["f", "--only-baseline"])
    assert (done.exit_code, done.stdout) == (0, "f True\n")
    words = "--only-baseline is now --only-carried-over; memreplay 0.3.0 drops the old name"
    assert done.stderr == f"memreplay: {words}\n"
    assert command_runner().invoke(command, ["f", "--only-carried-over"]).stderr == ""


@pytest.mark.parametrize("one", [without, command])
def test_an_old_name_of_what_a_command_has_not(one: click.Command) -> None:
    done = command_runner().invoke(one, ["f", "--no-baseline"])
    assert done.exit_code == 2
    assert "No such option" in done.stderr
    assert "is now" not in done.stderr


def test_an_old_name_with_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(deprecation.OPTIONS, "--mine", deprecation.Old("--own", "9.0.0"))
    new, old, apart = (
        command_runner().invoke(command, ["f", *words])
        for words in (["--own=5"], ["--mine=5"], ["--mine", "5"])
    )
    assert new.exit_code == old.exit_code == apart.exit_code
    assert new.stdout == old.stdout == apart.stdout
    assert old.stderr == apart.stderr
    assert "--mine is now --own; memreplay 9.0.0 drops" in old.stderr


def test_a_hidden_option_goes_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command(cls=Command)
    @click.option("--fast", is_flag=True, hidden=True)
    @click.option("--deep", is_flag=True, hidden=True)
    def hiding(fast: bool, deep: bool) -> None:
        click.echo(f"{fast} {deep}")

    monkeypatch.setitem(deprecation.OPTIONS, "--fast", deprecation.Old("it is always so", "9.0.0"))
    done = command_runner().invoke(hiding, ["--fast"])
    assert (done.exit_code, done.stdout) == (0, "True False\n")
    assert done.stderr == "memreplay: --fast goes in memreplay 9.0.0: it is always so\n"
    assert command_runner().invoke(hiding, ["--deep"]).stderr == ""


def test_what_comes_after_two_dashes_is_not_ours() -> None:
    done = command_runner().invoke(command, ["--", "--only-baseline"])
    assert (done.stdout, done.stderr) == ("--only-baseline False\n", "")


def test_completion_hears_nothing_of_old_names(capsys: pytest.CaptureFixture[str]) -> None:
    with command.make_context("x", ["f", "--only-baseline"], resilient_parsing=True) as context:
        assert context.params["filter_only_carried"] is True
    assert capsys.readouterr().err == ""
