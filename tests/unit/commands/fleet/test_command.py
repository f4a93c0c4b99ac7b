"""Tests of commands/fleet/command.py and calling.py, with local processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from tests.conftest import ROOT
from tests.unit.render.schemas import check_against

FOLDER = ROOT / "examples" / "fsdp_ranks"


def ask(runner: CliRunner, *args: str) -> Result:
    return runner.invoke(app, ["fleet", *args])


def test_text_and_json_agree(runner: CliRunner) -> None:
    done = ask(runner, str(FOLDER))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "4 ranks: highest peak" in done.stdout
    asked = ask(runner, str(FOLDER), "--format", "json", "--workers", "1")
    found = json.loads(asked.stdout)
    check_against("fleet-1.json", found)
    assert found["schema"] == "memreplay.fleet/1"
    assert [one["rank"] for one in found["ranks"]] == [0, 1, 2, 3]
    assert mr.to_json(mr.fleet(str(FOLDER), workers=2)) == asked.stdout.rstrip("\n")


def test_markdown_has_a_table_of_ranks(runner: CliRunner) -> None:
    done = ask(runner, str(FOLDER), "--format", "markdown")
    assert done.exit_code == 0
    assert done.stdout.startswith("### ")
    assert "| rank | peak |" in done.stdout


def test_other_ranks_are_shown_if_one_is_unreadable(runner: CliRunner, tmp_path: Path) -> None:
    for file in FOLDER.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "rank1.pkl.gz").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    done = ask(runner, str(tmp_path))
    assert done.exit_code == 3
    assert "os.system" in done.stdout
    assert "4 ranks: highest peak" in done.stdout


@pytest.mark.parametrize(
    "args, words",
    [
        (
            ["--workers", "tcp://h:1", "--memory-per-worker", "1GiB"],
            "a cluster has its own workers",
        ),
        (
            ["--rank-pattern", "x"],
            "--rank-pattern needs exactly one group for the rank, as in 'gpu([0-9]+)'",
        ),
        (["--workers", "0"], "--workers"),
        (["--memory-per-worker", "1KiB"], "--memory-per-worker"),
    ],
)
def test_impossible_options_are_rejected(runner: CliRunner, args: list[str], words: str) -> None:
    done = ask(runner, str(FOLDER), *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_folder_without_snapshots_is_an_error(runner: CliRunner, tmp_path: Path) -> None:
    done = ask(runner, str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
