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
from memreplay.commands.watch.asked import WatchOptions
from tests.unit.commands.watch.world import MIB, World, snapshot


class Noted:
    """A watch that is not begun."""

    given: tuple[Any, ...] = ()

    def __init__(self, *given: Any) -> None:
        Noted.given = given

    def run(self) -> int:
        """Nothing."""
        return 7


def test_options_reach_the_watch(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "Watch", Noted)
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["watch", "run"]).exit_code == 7
    asked, reading, selection = Noted.given
    assert asked == WatchOptions(folders=("run",))
    assert (reading.device, reading.limits, selection.measure) == (None, (), "requested")
    options = "a b -r --new --max-peak 2GiB --max-reserved 3GiB --bell --until-over --count 4"
    options += " --timeout 5 --every 6 --settle 7 --measure held -d 1 --limit rows=9 --json"
    assert runner.invoke(app, ["watch", *options.split()]).exit_code == 7
    asked, reading, selection = Noted.given
    assert asked == WatchOptions(
        folders=("a", "b"),
        recursive=True,
        new=True,
        max_peak=2 << 30,
        max_reserved=3 << 30,
        bell=True,
        until_over=True,
        count=4,
        timeout=5.0,
        every=6.0,
        settle=7.0,
        as_json=True,
    )
    assert (reading.device, reading.limits, selection.measure) == (1, (("rows", 9),), "held")
    assert (reading.start, reading.stop, reading.salvage) == (None, None, False)


@pytest.mark.parametrize(
    "options, words",
    [
        ([], "Missing argument 'DIR...'"),
        (["snap.pkl"], "'snap.pkl' is a file"),
        (["run", "--until-over"], "--until-over needs a limit: give --max-peak or --max-reserved"),
        (["run", "--bell"], "--bell needs a limit"),
        (["run", "--once", "--new"], "--new leaves it out"),
        (["run", "--every", "0"], "0.0 is not between 0.01 and 1,000,000,000"),
        (["run", "--every", "nan"], "nan is not between"),
        (["run", "--timeout", "inf"], "inf is not between"),
        (["run", "--settle", "-1"], "--settle"),
        (["run", "--count", "0"], "--count"),
        (["run", "--max-peak", "8"], "--max-peak"),
        (["run", "--salvage"], "No such option"),
        (["s3://bucket/run"], "s3://bucket/run: only folders of this machine can be watched"),
    ],
)
def test_wrong_usage(
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
def test_a_real_one_until_a_signal(world: World, number: signal.Signals) -> None:
    folder = str(world.folder)
    (world.folder / "a.pkl").write_bytes(snapshot(20))
    watch = start(folder, "--json", "--every", "0.05", "--settle", "0.1", "--max-peak", "21MiB")
    assert watch.stdout is not None
    first = json.loads(watch.stdout.readline())
    assert (first["kind"], first["past_budget"]) == ("snapshot", False)
    part = world.folder / "b.pkl.12-1.part"
    part.write_bytes(snapshot(25))
    part.rename(world.folder / "b.pkl")
    second = json.loads(watch.stdout.readline())  # it is there at once
    assert second["devices"][0]["peak_bytes"] == 25 * MIB
    watch.send_signal(number)
    out, err = watch.communicate(timeout=20)
    assert (watch.returncode, err) == (1, "")
    totals = json.loads(out)["totals"]
    assert (totals["ended"], totals["snapshots"], totals["past_budget"]) == ("signal", 2, 1)


def test_nobody_reads_any_more(world: World) -> None:
    (world.folder / "a.pkl").write_bytes(snapshot(20))
    watch = start(str(world.folder), "--every", "0.05", "--settle", "0")
    assert watch.stdout is not None
    assert watch.stderr is not None
    watch.stdout.readline()
    watch.stdout.close()
    began = time.monotonic()
    assert watch.wait(timeout=20) == 141
    assert time.monotonic() - began < 10
    assert watch.stderr.read() == ""
    watch.stderr.close()
