"""Tests of commands/shared/filtering.py."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.shared.filtering import filter_options, filter_options_of


@click.command()
@filter_options
def everything(filters: Filters | None) -> None:
    click.echo(repr(filters))


@click.command()
@filter_options_of("include", "only_live_at_end")
def some(filters: Filters | None) -> None:
    click.echo(repr(filters))


def test_without_any_nothing_is_filtered(runner: CliRunner) -> None:
    assert runner.invoke(everything, []).stdout == "None\n"


def test_all_of_them(runner: CliRunner) -> None:
    asked = ["--include", "a", "--include", "b", "--exclude", "c", "--min-bytes", "1KiB"]
    asked += ["--only-live-at-end", "--no-carried-over"]
    want = Filters(("a", "b"), ("c",), 1024, only_live_at_end=True, no_carried=True)
    assert runner.invoke(everything, asked).stdout == f"{want!r}\n"


def test_some_alone(runner: CliRunner) -> None:
    want = Filters(("a",), only_live_at_end=True)
    assert runner.invoke(some, ["--include", "a", "--only-live-at-end"]).stdout == f"{want!r}\n"
    assert runner.invoke(some, ["--min-bytes", "1KiB"]).exit_code == 2


@pytest.mark.parametrize("option", ["--include", "--exclude"])
def test_what_is_no_regular_expression(runner: CliRunner, option: str) -> None:
    done = runner.invoke(everything, [option, "("])
    assert done.exit_code == 2
    assert "'('" in done.stderr
