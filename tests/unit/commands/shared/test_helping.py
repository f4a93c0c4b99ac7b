"""Tests of commands/shared/helping.py: options in groups, and exit codes."""

from __future__ import annotations

from typing import Annotated

import click

from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.helping import GROUPS
from memreplay.declared import Opt, Options
from tests.commanding import command_runner


class Own(Options, frozen=True):
    own: Annotated[str | None, Opt("Its own.", "NAME")] = None


class Which(Options, frozen=True):
    only_old: Annotated[bool, Opt("Only old.")] = False


class Where(Options, frozen=True):
    target: Annotated[str | None, Opt("Where to.", "OUT", short="-t")] = None


@as_command("told", examples=("told FILE",))
def command(file: File, output: Where, selection: Which, options: Own) -> int | None:
    """Do it."""
    click.echo(f"{file} {selection.only_old}")
    return 3 if file == "three" else None


def test_exit_code_is_the_return_value() -> None:
    assert command_runner().invoke(command, ["three"]).exit_code == 3
    assert command_runner().invoke(command, ["none"]).exit_code == 0


def test_options_are_listed_in_groups() -> None:
    lines = command_runner().invoke(command, ["--help-all"]).stdout.splitlines()
    heads = [line for line in lines if line.rstrip(":") in GROUPS]
    assert heads == ["Options:", "Selection:", "Output:"]
    at = {word: i for i, line in enumerate(lines) for word in line.split()[:2]}
    assert at["Options:"] < at["--own"] < at["Selection:"] < at["--only-old"]
    assert at["--only-old"] < at["Output:"] < at["-t,"]


def test_everything_after_two_dashes_is_an_argument() -> None:
    done = command_runner().invoke(command, ["--", "--only-old"])
    assert (done.stdout, done.stderr) == ("--only-old False\n", "")
