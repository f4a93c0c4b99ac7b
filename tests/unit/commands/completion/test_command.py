"""Tests of commands/completion/command.py."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.listed import COMMANDS


@pytest.mark.parametrize(
    "shell, words",
    [
        ("bash", "complete -o nosort -F _memreplay_completion memreplay"),
        ("zsh", "#compdef memreplay"),
        ("fish", "complete --no-files --command memreplay"),
    ],
)
def test_script_is_for_the_given_shell(runner: CliRunner, shell: str, words: str) -> None:
    result = runner.invoke(app, ["completion", shell])
    assert result.exit_code == 0
    assert words in result.stdout
    assert "_MEMREPLAY_COMPLETE" in result.stdout


def test_unknown_shell_is_an_error(runner: CliRunner) -> None:
    result = runner.invoke(app, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.parametrize(
    "words, number, offered",
    [
        ("memreplay ", "1", {f"plain,{name}" for name in COMMANDS}),
        ("memreplay peak --by f", "3", {"plain,file", "plain,function"}),
        ("memreplay peak --measure re", "3", {"plain,requested", "plain,reserved"}),
        ("memreplay gate --write j", "3", {"plain,json=", "plain,junit="}),
        ("memreplay fleet --write h", "3", {"plain,html="}),
        ("memreplay summary x", "2", {"file,x"}),
        ("memreplay sql x", "2", {"file,x"}),
        ("memreplay nothing --x", "2", set()),
    ],
)
def test_shell_gets_suggestions(words: str, number: str, offered: set[str]) -> None:
    environment = {
        **os.environ,
        "_MEMREPLAY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": number,
    }
    done = subprocess.run(
        [sys.executable, "-m", "memreplay"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == offered
