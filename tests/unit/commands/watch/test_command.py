"""Tests of commands/watch/command.py: options, and real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.watch import command
from memreplay.commands.watch.options import WatchOptions
from memreplay.live import cards, find
from memreplay.live.cards import Card
from tests.unit.commands.watch.world import MIB, World, snapshot
from tests.unit.live.machine import card, recording


class Noted:
    """A watch that only notes its options."""

    given: tuple[Any, ...] = ()

    def __init__(self, *given: Any) -> None:
        Noted.given = given

    def run(self) -> int:
        """Return an exit code without watching."""
        return 7


def test_options_are_passed_on(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "Watch", Noted)
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["watch", "run"]).exit_code == 7
    asked, reading, selection = Noted.given
    assert asked == WatchOptions(folders=("run",))
    assert (reading.device, reading.limits, selection.measure) == (None, (), "requested")
    options = "a b -r --only new --max-peak 2GiB --max-reserved 3GiB --until over"
    options += (
        " --until count=4 --until timeout=5 --interval 6 --measure held -d 1 --limit rows=9 --json"
    )
    assert runner.invoke(app, ["watch", *options.split()]).exit_code == 7
    asked, reading, selection = Noted.given
    assert asked == WatchOptions(
        folders=("a", "b"),
        recursive=True,
        new=True,
        max_peak=2 << 30,
        max_reserved=3 << 30,
        over=True,
        count=4,
        timeout=5.0,
        interval=6.0,
        as_json=True,
    )
    assert (reading.device, reading.limits, selection.measure) == (1, (("rows", 9),), "held")
    assert (reading.start, reading.stop, reading.salvage) == (None, None, False)


@pytest.mark.parametrize(
    "options, words",
    [
        (["snap.pkl"], "'snap.pkl' is a file"),
        (
            ["run", "--until", "over"],
            "--until over needs a limit; give --max-peak or --max-reserved",
        ),
        (["run", "--until", "now", "--only", "new"], "--only new leaves them out"),
        (
            ["run", "--until", "then"],
            "unknown key 'then'; known keys: over, count=N, timeout=SECONDS",
        ),
        (["run", "--until", "over=1"], "over takes no value"),
        (["run", "--until", "count"], "count needs a value: count=N"),
        (["run", "--interval", "0"], "0.0 is not between 0.01 and 1,000,000,000"),
        (["run", "--interval", "nan"], "nan is not between"),
        (["run", "--until", "timeout=inf"], "timeout: inf is not between"),
        (["run", "--until", "count=0"], "count: 0 is below 1"),
        (["run", "--max-peak", "8"], "--max-peak"),
        (["run", "--salvage"], "watch has no option --salvage"),
        (["s3://bucket/run"], "s3://bucket/run: only local folders can be watched"),
    ],
)
def test_usage_errors_are_reported(
    runner: CliRunner,
    options: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snap.pkl").write_bytes(b"")
    result = runner.invoke(app, ["watch", *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert words.lower() in result.stderr.lower()


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "memreplay", "watch", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_real_run_ends_with_totals_after_a_signal(world: World, number: signal.Signals) -> None:
    folder = str(world.folder)
    (world.folder / "a.pkl").write_bytes(snapshot(20))
    watch = start(folder, "--json", "--interval", "0.05", "--max-peak", "21MiB")
    assert watch.stdout is not None
    first = json.loads(watch.stdout.readline())
    assert (first["kind"], first["over_budget"]) == ("snapshot", False)
    part = world.folder / "b.pkl.12-1.part"
    part.write_bytes(snapshot(25))
    part.rename(world.folder / "b.pkl")
    second = json.loads(watch.stdout.readline())  # a rename makes the whole file appear at once
    assert second["devices"][0]["peak_bytes"] == 25 * MIB
    watch.send_signal(number)
    out, err = watch.communicate(timeout=20)
    assert (watch.returncode, err) == (1, "")
    totals = json.loads(out)["totals"]
    assert (totals["ended"], totals["snapshot_count"], totals["over_budget_count"]) == (
        "signal",
        2,
        1,
    )


def test_closed_pipe_ends_quietly(world: World) -> None:
    (world.folder / "a.pkl").write_bytes(snapshot(20))
    watch = start(str(world.folder), "--interval", "0.05")
    assert watch.stdout is not None
    assert watch.stderr is not None
    watch.stdout.readline()
    watch.stdout.close()
    began = time.monotonic()
    assert watch.wait(timeout=20) == 141
    assert time.monotonic() - began < 10
    assert watch.stderr.read() == ""
    watch.stderr.close()


class NoDriver:
    """A machine without NVIDIA's library."""

    missing = "NVML: no driver"

    def cards(self) -> list[Card]:
        return []


class TwoCards(NoDriver):
    """A machine with two cards."""

    missing = ""

    def cards(self) -> list[Card]:
        return [card(), card(number=1, uuid="other")]


@pytest.fixture
def no_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "recordings", lambda: ())


def test_live_prints_once_without_a_terminal(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "Driver", TwoCards)
    monkeypatch.setattr(find, "recordings", lambda: (recording(),))
    for options in ([], ["--once"]):
        done = runner.invoke(app, ["watch", "--live", *options])
        assert done.exit_code == 0
        assert done.stdout.startswith("card 0: NVIDIA H200, 80.0 GiB of 140.0 GiB in use\n")
        assert "pid 100 train.py: allocated by PyTorch" in done.stdout
    done = runner.invoke(app, ["watch", "--live", "--json"])
    found = json.loads(done.stdout)
    assert found["schema"] == "memreplay.watch-live/1"
    assert [one["index"] for one in found["cards"]] == [0, 1]
    for one in found["cards"]:
        assert sum(part["bytes"] for part in one["parts"]) == one["total_bytes"]


@pytest.mark.usefixtures("no_recordings")
def test_live_without_cards_says_why(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "Driver", NoDriver)
    done = runner.invoke(app, ["watch", "--live"])
    assert (done.exit_code, done.stdout) == (5, "")
    assert "NVML: no driver; and no recording of memreplay is running" in done.stderr


@pytest.mark.parametrize(
    "options, words",
    [
        ("", "give the folder of a run, or --live to see the cards"),
        ("--once run", "--once needs --live"),
        ("--live run", "--live shows the cards"),
        ("--live --max-peak 1GiB", "it takes only --once and --json"),
        ("--live --until now", "it takes only --once and --json"),
    ],
)
def test_live_and_folders_exclude_each_other(runner: CliRunner, options: str, words: str) -> None:
    done = runner.invoke(app, ["watch", *options.split()])
    assert done.exit_code == 2
    assert words in done.stderr
