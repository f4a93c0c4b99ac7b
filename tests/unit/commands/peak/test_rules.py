"""Tests of `memreplay peak --rules` and `memreplay at --rules`, on a small file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.render.schemas import check_against

RULES = """
[[category]]
name = "loss"
frames = "loss"
[[category]]
name = "nothing"
frames = "nowhere"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Create a file with 100 bytes from the model and 30 from the loss, and a configuration next to
    it.
    """
    builder = SnapshotBuilder()
    builder.alloc(512, 100, frames=[("f", "model.py", 1), ("main", "train.py", 9)])
    builder.alloc(1024, 30, frames=[("g", "loss.py", 1)])
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(builder.build()))
    (tmp_path / "c.toml").write_text(RULES)
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    config = str(Path(path).parent / "c.toml")
    return runner.invoke(app, ["peak", path, "--rules", "--config", config, *options])


def test_text_has_a_row_per_rule(runner: CliRunner, path: str) -> None:
    result = ask(runner, path)
    assert (result.exit_code, result.stderr) == (0, "")
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["30", "B", "23.1%", "1", "1", "loss", "g", "loss.py:1"] in words
    assert ["0", "B", "0%", "0", "2", "nothing", "(nothing)"] in words
    assert ["100", "B", "76.9%", "1", "-", "unknown", "(see", "below)"] in words
    assert ["100", "B", "76.9%", "1", "f", "model.py:1"] in words
    said = " ".join(result.stdout.split())
    assert "categories guessed by 24 rules, 2 of them from the configuration" in said
    whole = ask(runner, path, "--all-frames", "--top", "1").stdout
    assert "main  train.py:9" in whole


def test_json_has_the_bytes_of_each_rule(runner: CliRunner, path: str) -> None:
    config = str(Path(path).parent / "c.toml")
    options = ["--rules", "--config", config, "--json", "--only", "min-bytes=1B"]
    result = runner.invoke(app, ["at", path, "0", *options])
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    check_against("at-1.json", found)
    (device,) = found["devices"]
    assert [rule["bytes"] for rule in device["caught"]["rules"]] == [0] * 24
    assert (device["caught"]["unknown_bytes"], device["live_bytes"]) == (100, 100)
    found = json.loads(ask(runner, path, "--json").stdout)
    check_against("peak-1.json", found)
    (device,) = found["devices"]
    assert [rule["bytes"] for rule in device["caught"]["rules"]][:2] == [30, 0]
    plain = json.loads(runner.invoke(app, ["peak", path, "--json"]).stdout)
    assert "caught" not in plain["devices"][0]


def test_nothing_is_listed_without_allocations(runner: CliRunner, path: str) -> None:
    assert "no allocation passes the filters" in ask(runner, path, "--only", "min-bytes=1T").stdout
    nothing = runner.invoke(app, ["at", path, "start", "--rules"])
    assert (nothing.exit_code, nothing.stderr) == (0, "")
    assert "most of it allocated at" not in nothing.stdout


def test_at_shows_the_rules(runner: CliRunner, path: str) -> None:
    config = str(Path(path).parent / "c.toml")
    result = runner.invoke(app, ["at", path, "0", "--rules", "--config", config])
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["100", "B", "100.0%", "1", "-", "unknown", "(see", "below)"] in words
    assert ["0", "B", "0%", "0", "1", "loss", "(nothing)"] in words


def test_timeline_shows_categories_over_time(runner: CliRunner, path: str) -> None:
    config = str(Path(path).parent / "c.toml")
    options = ["timeline", path, "--by", "category", "--config", config, "--measure", "requested"]
    found = json.loads(runner.invoke(app, [*options, "--format", "json"]).stdout)
    check_against("timeline-1.json", found)
    layers = {one["label"]: one["bytes"] for one in found["devices"][0]["groups"]}
    assert layers == {"unknown": [100, 100], "loss": [0, 30]}
    lines = runner.invoke(app, [*options, "--format", "csv"]).stdout.splitlines()
    assert lines[0].endswith("unknown,loss,(others)")
    assert "loss" in runner.invoke(app, options).stdout


@pytest.mark.parametrize("words", [["peak", "FILE"], ["at", "FILE", "end"]])
def test_reserved_memory_has_no_categories(runner: CliRunner, path: str, words: list[str]) -> None:
    words = [path if one == "FILE" else one for one in words]
    result = runner.invoke(app, [*words, "--rules", "--measure", "reserved"])
    assert result.exit_code == 2
    assert "reserved memory has no categories; choose another --measure" in result.stderr


def test_carried_over_row_names_its_main_category(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(SnapshotBuilder().free(512, 100).build()))
    result = runner.invoke(app, ["peak", str(file), "--rules", "--config", "none"])
    words = "before the recording  (parameters, optimizer state, buffers)"
    assert any(line.endswith(words) for line in result.stdout.splitlines())


def test_casts_hidden_by_python_stacks_have_a_note(runner: CliRunner, tmp_path: Path) -> None:
    autocast = "/v/site-packages/torch/amp/autocast_mode.py"
    builder = SnapshotBuilder().alloc(512, 100, frames=[("forward", "/m.py", 1)])
    builder.alloc(1024, 50, frames=[("forward", "/m.py", 2)])
    builder.free(1024, 50, frames=[("__exit__", autocast, 371)])
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(builder.build()))
    result = runner.invoke(app, ["peak", str(file), "--rules", "--config", "none"])
    assert "weights (cast)" in result.stdout
    assert 'record with stacks="all" to separate them' in " ".join(result.stdout.split())
    found = json.loads(
        runner.invoke(
            app, ["peak", str(file), "--rules", "--config", "none", "--format", "json"]
        ).stdout
    )
    check_against("peak-1.json", found)
    assert len(found["devices"][0]["caught"]["notes"]) == 1
