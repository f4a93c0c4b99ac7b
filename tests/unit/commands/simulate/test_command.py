"""Tests of commands/simulate/command.py, on small files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from tests import build
from tests.allocator_blocks import MIB
from tests.conftest import ROOT
from tests.unit.analysis.simulating.programs import scattered
from tests.unit.render.schemas import check_against

OOM = str(ROOT / "examples" / "serving_oom.pkl.gz")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(scattered()))
    return str(file)


def ask(runner: CliRunner, *options: str, data: bytes | None = None) -> Result:
    return runner.invoke(app, ["simulate", *options], input=data)


def test_text_compares_the_peak_with_the_recording(runner: CliRunner, path: str) -> None:
    done = ask(runner, path, "--set", "expandable_segments:True")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "reserves 200.0 MiB at its peak, 90.0 MiB less than recorded" in done.stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--set", "expandable_segments:True"),
        ("--total-memory", "271MiB"),
        ("--search", "settings", "--total-memory", "450MiB"),
    ],
)
def test_json_matches_the_report(runner: CliRunner, path: str, options: tuple[str, ...]) -> None:
    done = ask(runner, path, *options, "--format", "json")
    assert (done.exit_code, done.stderr) == ("271MiB" in options, "")
    found = json.loads(done.stdout)
    check_against("simulate-1.json", found)
    total = {"271MiB": 271 * MIB, "450MiB": 450 * MIB}.get(options[-1] if options else "")
    want = mr.simulate(
        mr.open(path),
        set=options[1] if "--set" in options else "",
        total_memory=() if total is None else total,
        search=("settings",) if "--search" in options else (),
    )
    assert found == json.loads(mr.to_json(want))
    assert ("candidates" in found["devices"][0]) == ("--search" in options)


def test_several_settings_are_combined(runner: CliRunner, path: str) -> None:
    both = ("--set", "max_split_size_mb:128", "--set", "roundup_power2_divisions:4")
    done = ask(runner, path, *both, "--format", "json")
    (one,) = json.loads(done.stdout)["devices"]
    assert one["settings"] == "max_split_size_mb:128,roundup_power2_divisions:4"


@pytest.mark.parametrize(
    "options, message",
    [
        (("--set", "nothing:1"), "no allocator setting 'nothing'; available: expandable_"),
        (("--set", "max_split_size_mb:19"), "max_split_size_mb must be at least 20, not '19'"),
        (("--set", "expandable_segments"), "'expandable_segments' has no value: settings are KEY:"),
        (
            ("--set", "expandable_segments:yes"),
            "expandable_segments must be True or False, not 'yes'",
        ),
        (("--set", "per_process_memory_fraction:0.5"), "add --total-memory"),
        (("--total-memory", "0"), "0 is below 1"),
        (("--total-memory", "much"), "is not a size"),
        (("--total-memory", "-1GiB"), "is not a size"),
        (("--checkpoint",), "choose the allocations for --checkpoint, for example with --only"),
        (("--scale", "0"), "choose the allocations for --scale 0, for example with --only"),
        (("--device", "3"), "no device 3; this snapshot has: 0"),
    ],
)
def test_usage_error_takes_one_line(
    runner: CliRunner, path: str, options: tuple[str, ...], message: str
) -> None:
    done = ask(runner, path, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if "rror: " in line]
    assert message in error


def test_standard_input_is_read(runner: CliRunner) -> None:
    done = ask(runner, "-", "--format", "json", data=build.dump(scattered()))
    assert done.exit_code == 0
    assert json.loads(done.stdout)["devices"][0]["exactness"] == "exact"


def test_truncated_file_needs_salvage(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "cut.pkl"
    whole = build.dump(scattered())
    file.write_bytes(whole[: len(whole) // 2])
    done = ask(runner, str(file))
    assert (done.exit_code, done.stdout) == (4, "")
    done = ask(runner, str(file), "--salvage")
    assert done.exit_code == 0
    assert "warning: the file is cut off" in done.stdout
    assert ask(runner, str(file), "--salvage", "--strict").exit_code == 1


def test_strict_fails_for_untrusted_numbers(runner: CliRunner, path: str, tmp_path: Path) -> None:
    assert ask(runner, path, "--strict").exit_code == 0
    made = scattered()
    frees = [e for e in made["device_traces"][0] if e["action"] == "free_completed"]
    made["device_traces"][0].append(frees[0])
    file = tmp_path / "lost.pkl"
    file.write_bytes(build.dump(made))
    assert ask(runner, str(file)).exit_code == 0
    assert ask(runner, str(file), "--strict").exit_code == 1


def test_file_without_events_has_an_exit_code(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "none.pkl"
    file.write_bytes(build.dump({**scattered(), "device_traces": [[]]}))
    done = ask(runner, str(file))
    assert done.exit_code == 5
    assert "device 0: no events, so there is nothing to simulate" in done.stdout
    file.write_bytes(build.dump({"segments": [], "device_traces": []}))
    done = ask(runner, str(file))
    assert done.exit_code == 5
    assert "note: nothing to simulate" in done.stdout


def test_top_limits_the_settings(runner: CliRunner, path: str) -> None:
    few, all_of_them = (
        ask(runner, path, "--search", "settings", "--top", n).stdout for n in ("2", "0")
    )
    assert "more settings tried" in few
    assert "more settings tried" not in all_of_them
    assert len(few.splitlines()) < len(all_of_them.splitlines())


def test_failed_requests_may_fail_again(runner: CliRunner) -> None:
    done = ask(runner, OOM, "--set", "expandable_segments:True", "--format", "json")
    (one,) = json.loads(done.stdout)["devices"]
    assert one["simulated"]["oom_count"] == one["recorded"]["oom_count"] == 2
    assert one["failed"]["event_index"] == one["recorded"]["failed_event"] == 16_980
    assert one["exactness"] == "exact"


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 160])
def test_real_recordings_fit_on_a_screen(
    runner: CliRunner, corpus_file: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    options = ["--set", "expandable_segments:True"]
    done = ask(runner, str(corpus_file), *options)
    assert (done.exit_code, done.stderr) == (0 if mr.open(corpus_file).has_events else 5, "")
    assert all(len(line) <= width for line in done.stdout.splitlines())
    found = json.loads(ask(runner, str(corpus_file), *options, "--format", "json").stdout)
    check_against("simulate-1.json", found)
