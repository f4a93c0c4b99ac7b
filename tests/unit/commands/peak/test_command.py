"""Tests of commands/peak/command.py, on small files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import leaky
import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.peak.text import headlines, peak_document
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests import build
from tests.build import START_US, SnapshotBuilder

MAIN = ("main", "train.py", 1)
CALL = ("_call_impl", "/v/site-packages/torch/nn/modules/module.py", 7)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Create a file in which device 0 has peaks of 900 and 700 bytes, and device 1 has 5 bytes."""
    builder = SnapshotBuilder(2)
    builder.alloc(512, 600, frames=[("f", "m.py", 1), CALL, MAIN], time_us=START_US)
    builder.alloc(1536, 300, frames=[("g", "m.py", 9), CALL, MAIN], time_us=START_US + 1)
    builder.free_completed(512, 600, time_us=START_US + 2)
    builder.alloc(4096, 400, frames=[("f", "m.py", 1), MAIN], time_us=START_US + 3)
    builder.alloc(512, 5, 1, frames=[MAIN], time_us=START_US + 4)
    builder.finish_segments()
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder.build()))
    return str(made)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["peak", path, *options])


def found(runner: CliRunner, path: str, *options: str) -> dict[str, Any]:
    done = ask(runner, path, *options, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_text_is_the_library_report(runner: CliRunner, path: str) -> None:
    result = ask(runner, path)
    assert (result.exit_code, result.stderr) == (0, "")
    report = mr.peak(path, top=10, fold=True)
    assert result.stdout == render_plain(peak_document(report), width=100) + "\n"


def test_json_is_the_library_report(runner: CliRunner, path: str) -> None:
    result = ask(runner, path, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == render_json(mr.peak(path)) + "\n"
    assert json.loads(result.stdout)["schema"] == "memreplay.peak/1"
    assert ask(runner, path, "--format", "json").stdout == result.stdout


def test_long_text_repeats_the_peak_at_the_end(runner: CliRunner, path: str) -> None:
    assert render_plain(headlines(mr.peak(path)), width=100).count("peak 900 B requested") == 1


def test_options_change_the_report(runner: CliRunner, path: str) -> None:
    def device(*options: str) -> dict[str, Any]:
        (one,) = found(runner, path, "--device", "0", *options)["devices"]
        return dict(one)

    whole = device()
    assert (whole["peak_bytes"], whole["peak_event"], whole["groups_total"]) == (900, 1, 2)
    assert device("--measure", "reserved")["measure"] == "reserved"
    assert [one["label"] for one in device("--by", "file")["groups"]] == ["m.py"]
    assert len(device("--top", "1")["groups"]) == 1
    assert [one["bytes"] for one in device("--peaks", "5")["peaks"]] == [900, 700]
    assert device("--only", "stream=0")["peak_bytes"] == 900
    assert found(runner, path, "--only", "pool=default")["pool"] == [0, 0]
    assert device("--include", "m.py:1$")["peak_bytes"] == 600
    assert device("--exclude", "m.py:1$")["peak_bytes"] == 300
    assert device("--only", "min-bytes=500B")["peak_bytes"] == 600
    assert device("--only", "live-at-end")["peak_bytes"] == 700
    assert device("--from", "2", "--only", "carried-over")["peak_bytes"] == 900
    assert device("--from", "2", "--only", "no-carried-over")["peak_bytes"] == 400
    assert len(found(runner, path)["devices"]) == 2
    assert found(runner, path, "--include", "main")["filters"]["include"] == ["main"]


def test_all_frames_can_be_shown(runner: CliRunner, path: str) -> None:
    assert "module.py:7" not in ask(runner, path).stdout
    assert "module.py:7" in ask(runner, path, "--all-frames").stdout


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_strict_fails_for_untrusted_numbers(
    runner: CliRunner, path: str, tmp_path: Path, fmt: str
) -> None:
    good = tmp_path / "good.pkl"
    good.write_bytes(leaky.snapshot_bytes(leaky.Options(steps=2, leak_bytes=0)))
    assert ask(runner, str(good), "--format", fmt, "--strict").exit_code == 0
    snapshot = (
        SnapshotBuilder(2).alloc(512, 600).alloc(512, 5, 1).build()
    )  # these blocks are in no segment
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(build.dump(snapshot))
    assert ask(runner, str(bad), "--format", fmt).exit_code == 0
    result = ask(runner, str(bad), "--format", fmt, "--strict")
    assert result.exit_code == 1
    assert result.stdout  # the report is printed anyway
    cut = tmp_path / "cut.pkl"
    cut.write_bytes(Path(path).read_bytes()[:-9])
    assert ask(runner, str(cut), "--format", fmt, "--strict").exit_code == 4


def test_colour_can_be_forced(runner: CliRunner, path: str) -> None:
    result = runner.invoke(app, ["peak", path], env={"FORCE_COLOR": "1"}, color=True)
    assert "\x1b[1mdevice 0: peak 900 B requested" in result.stdout


def test_unreadable_file_is_an_error(runner: CliRunner, path: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pkl")
    result = ask(runner, missing, "--json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"memreplay: error: {missing}: no such file\n"
    cut = tmp_path / "cut.pkl"
    cut.write_bytes(Path(path).read_bytes()[:100])
    result = ask(runner, str(cut), "--json")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.startswith(f"memreplay: error: {cut}: ")


def test_missing_device_is_an_error(runner: CliRunner, path: str) -> None:
    result = ask(runner, path, "--device", "5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"memreplay: error: {path}: no device 5; this snapshot has: 0, 1\n"


def test_interrupt_exits_quietly(
    runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memreplay.commands.peak.command.opened", interrupted)
    result = ask(runner, path)
    assert (result.exit_code, result.output) == (130, "")


def test_usage_errors_come_before_reading(runner: CliRunner) -> None:
    result = ask(runner, "missing.pkl", "--exclude", "(")
    assert result.exit_code == 2
    assert "'(' is not a regular expression" in result.stderr
    result = ask(runner, "missing.pkl", "--tree", "--tree-share", "101%")
    assert result.exit_code == 2
    assert "is not a share; give 1% or 0.01, at most 100%" in result.stderr
    result = ask(runner, "missing.pkl", "--peaks", "-1")
    assert result.exit_code == 2
    assert "-1 is below 0" in result.stderr


def test_categories_follow_the_configuration(runner: CliRunner, path: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('category_defaults = false\n[[category]]\nname = "a"\nframes = ":f$"\n')
    options = ["--config", str(config)]
    report = found(runner, path, *options, "--by", "category", "--device", "0")
    (device,) = report["devices"]
    assert {one["label"]: one["bytes"] for one in device["groups"]} == {"a": 600, "unknown": 300}
    # The report lists categories whatever the key is.
    (device,) = found(runner, path, *options, "--device", "0")["devices"]
    assert [one["category"] for one in device["categories"]] == ["a", "unknown"]
    config.write_text("[")
    result = ask(runner, path, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"memreplay: error: {config}: not valid TOML")
    assert ask(runner, path, *options, "--config", "none").exit_code == 0  # the last counts
    assert ask(runner, path, "--config", "none", "--by", "category").exit_code == 0


def test_call_tree_can_be_shown_and_limited(runner: CliRunner, path: str) -> None:
    def tree(*options: str) -> Any:
        (device,) = found(runner, path, "--device", "0", "--tree", *options)["devices"]
        return device["tree"]

    assert "900 B" in ask(runner, path, "--tree").stdout
    assert [one["label"] for one in tree()["calls"]] == ["main train.py:1", "f m.py:1", "g m.py:9"]
    assert len(tree("--depth", "1")["calls"]) == 1
    assert len(tree("--tree-share", "50%")["calls"]) == 2
    assert [one["label"] for one in tree("--inverted")["calls"]][:1] == ["f m.py:1"]
    assert tree("--inverted")["inverted"] is True
    assert any("module.py:7" in str(one["frames"]) or CALL[0] in str(one["frames"])
               for one in tree("--all-frames")["calls"])  # fmt: skip
    for command in (["peak", path], ["at", path, "end"]):
        result = runner.invoke(app, [*command, "--inverted"])
        assert result.exit_code == 2
        assert "--inverted only applies to --tree; add --tree" in result.stderr
        result = runner.invoke(app, [*command, "--tree", "--by", "file"])
        assert result.exit_code == 2
        assert "--tree groups by call stack" in result.stderr


def test_json_imports_no_text_modules(path: str) -> None:
    code = (
        "import sys; from memreplay.commands.app import app;"
        "app(sys.argv[1:], standalone_mode=False);"
        "sys.exit('memreplay.render.record_json' not in sys.modules"
        " or 'memreplay.render.plain' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "peak", path, "--json"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "only, instead",
    [
        ("category=activations", "no-carried-over; use --by category to show each category"),
        ("file=train.py", "no-carried-over; use --include REGEX for code"),
        ("nonsense", "no-carried-over"),
    ],
)
def test_condition_that_is_a_grouping_names_the_option(
    runner: CliRunner, only: str, instead: str
) -> None:
    result = runner.invoke(app, ["peak", "snap.pkl", "--only", only])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"{instead}\n")
