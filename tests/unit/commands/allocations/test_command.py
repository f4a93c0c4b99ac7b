"""Tests of commands/allocations/command.py, on a small file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.render.schemas import check_against


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Create a file with three allocations: a temporary one, one that lives a little longer, and
    one that is kept.
    """
    builder = SnapshotBuilder()
    builder.alloc(512, 900, frames=[("forward", "model.py", 7)])
    builder.free_requested(512, 900).free_completed(512, 900)
    builder.alloc(512, 700, frames=[("backward", "model.py", 9)], stream=7)
    builder.alloc(2048, 5_000, frames=[("step", "optim.py", 3)])
    builder.free_completed(512, 700)
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(builder.build()))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["allocations", path, *options])


@pytest.mark.parametrize(
    "options, labels",
    [
        ([], ["step optim.py:3", "forward model.py:7", "backward model.py:9"]),
        (["--by", "file"], ["optim.py", "model.py"]),
        (["--by", "file", "--sort", "count"], ["model.py", "optim.py"]),
        (["--by", "function", "--sort", "temporary"], ["forward", "step", "backward"]),
        (
            ["--by", "line", "--sort", "mean-lifetime", "--top", "2"],
            ["forward model.py:7", "backward model.py:9"],
        ),
        (["--by", "size"], ["4 KiB to 8 KiB", "512 B to 1 KiB"]),
        (["--by", "stream"], ["default stream", "stream 7"]),
        (
            ["--by", "category,stream"],
            [
                "optimizer state, default stream",
                "activations, default stream",
                "backward, stream 7",
            ],
        ),
        (
            ["--by", "innermost", "--exclude", "optim"],
            ["forward model.py:7", "backward model.py:9"],
        ),
        (["--include", "model", "--only", "min-bytes=800B"], ["forward model.py:7"]),
        (["--only", "live-at-end"], ["step optim.py:3"]),
        (["--only", "stream=7"], ["backward model.py:9"]),
        (["--from", "3", "--to", "4"], ["backward model.py:9"]),
    ],
)
def test_by_and_sort_options_change_the_groups(
    runner: CliRunner, path: str, options: list[str], labels: list[str]
) -> None:
    result = ask(runner, path, *options, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    check_against("allocations-1.json", found)
    (device,) = found["devices"]
    assert [group["label"] for group in device["groups"]] == labels
    whole = sum(group["bytes"] for group in device["groups"]) + device["rest_bytes"]
    assert whole == device["allocated_bytes"]


def test_temporary_option_sets_the_threshold(runner: CliRunner, path: str) -> None:
    counts = []
    for options in ([], ["--temporary", str(10**30)]):
        result = ask(runner, path, *options, "--format", "json")
        counts.append(json.loads(result.stdout)["devices"][0]["temporary_count"])
    assert counts == [1, 2]


def test_text_shows_totals_and_groups(runner: CliRunner, path: str) -> None:
    shown = ask(runner, path).stdout
    assert "device 0: 3 allocations of 6.4 KiB requested, in 6 events" in shown
    assert "temporary  1 (33.3%) of 900 B freed before the next allocation" in shown
    assert "sizes from" in shown
    assert "lifetimes from" in shown
    assert "forward  model.py:7" in shown
    every = ask(runner, path, "--all-frames", "--measure", "held").stdout
    assert "3 allocations of 6.4 KiB held" in every


@pytest.mark.parametrize(
    "options, words",
    [
        (["--measure", "reserved"], "memreplay fragmentation --segments shows"),
        (["--temporary", "-1"], "-1 is below 0"),
        (["--by", "colour"], "'colour' is not one of stack, "),
        (["--by", "stack,"], "'' is not one of stack, "),
        (["--include", "("], "'(' is not a regular expression"),
        (["--only", "carried-over"], "unknown key 'carried-over'"),
        (["--only", "stream=9"], "device 0 has no stream 9; its streams: 0, 7"),
        (["--device", "4"], "no device 4"),
    ],
)
def test_usage_errors_are_reported(
    runner: CliRunner, path: str, options: list[str], words: str
) -> None:
    result = ask(runner, path, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_custom_rules_define_the_categories(runner: CliRunner, path: str, tmp_path: Path) -> None:
    config = tmp_path / "memreplay.toml"
    config.write_text('category_defaults = false\n[[category]]\nname = "mine"\nframes = "model"\n')
    shown = ask(runner, path, "--by", "category", "--config", str(config), "--format", "json")
    (device,) = json.loads(shown.stdout)["devices"]
    assert [group["label"] for group in device["groups"]] == ["unknown", "mine"]
    config.write_text("nonsense = 1")
    wrong = ask(runner, path, "--by", "category", "--config", str(config))
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "unknown key 'nonsense'" in wrong.stderr
    # All files are read with the user's rules, so --project works, too.
    assert ask(runner, path, "--config", str(config)).exit_code == 2


def test_strict_fails_without_segments(runner: CliRunner, path: str) -> None:
    assert ask(runner, path).exit_code == 0
    assert ask(runner, path, "--strict").exit_code == 1  # no segments
