"""Tests of cli/options.py, on a command that has them all."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from memreplay.cli import options


@click.command()
@options.files_argument
@options.format_option
@options.device_option
@options.top_option
@options.by_option
@options.all_frames_option
def every(**values: object) -> None:
    """Print what was given."""
    click.echo(json.dumps(values))


def test_defaults(runner: CliRunner) -> None:
    result = runner.invoke(every, ["a", "-"])
    assert json.loads(result.output) == {
        "files": ["a", "-"],
        "fmt": "text",
        "device": None,
        "top": 20,
        "by": "stack",
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
    ],
)
def test_wrong_usage(runner: CliRunner, arguments: list[str]) -> None:
    assert runner.invoke(every, arguments).exit_code == 2
