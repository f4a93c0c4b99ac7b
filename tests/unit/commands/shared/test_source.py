"""Tests of commands/shared/source.py."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.config import ConfigChoice
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import LimitError, TruncatedError, UsageError
from memreplay.snapshot.model import When
from tests import build
from tests.build import START_US, SnapshotBuilder


def recorded(tmp_path: Path, events: int = 3, devices: int = 1) -> str:
    builder = SnapshotBuilder(devices)
    for i in range(events * devices):
        builder.alloc(0x1000 * (i + 1), 64, i % devices, time_us=START_US + 500 * (i // devices))
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder.finish_segments().build()))
    return str(made)


def test_file_is_closed_afterwards(tmp_path: Path) -> None:
    with opened(recorded(tmp_path), Reading()) as snapshot:
        assert snapshot.replay(0).events == 3
    if sys.platform == "linux":
        names = [os.readlink(one.path) for one in os.scandir("/proc/self/fd") if one.is_symlink()]
        assert not any(str(tmp_path) in name for name in names)


def test_dash_is_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path(recorded(tmp_path)).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    with opened("-", Reading()) as snapshot:
        assert snapshot.replay(0).events == 3


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), opened(str(tmp_path / "none"), Reading()):
        pytest.fail("it was opened")


def test_only_the_given_part_is_read(tmp_path: Path) -> None:
    path = recorded(tmp_path, devices=3)
    reading = Reading(device=2, start=When("event", 1), stop=When("event", 2))
    with opened(path, reading) as snapshot:
        assert snapshot.devices == (2,)
        assert (snapshot.replay(2).first_event, snapshot.replay(2).events) == (1, 1)
    cut = tmp_path / "cut.pkl"
    cut.write_bytes(Path(path).read_bytes()[:-50])
    with pytest.raises(TruncatedError), opened(str(cut), Reading()):
        pytest.fail("it was opened")
    with opened(str(cut), Reading(salvage=True)) as snapshot:
        assert snapshot.truncation is not None
    with (
        pytest.raises(LimitError, match="string_bytes"),
        opened(path, Reading(limits=(("string_bytes", 1),))),
    ):
        pytest.fail("it was opened")
    with opened(path, Reading(config=ConfigChoice("none", folders=("src",)))) as snapshot:
        assert snapshot.project == ("src",)


COMMANDS = (
    *(
        "peak",
        "summary",
        "timeline",
        "fragmentation --segments",
        "fragmentation",
        "oom",
        "steps",
        "leaks",
    ),
    *(
        "allocations",
        "export --format txt",
        "at end",
        "simulate",
        "export -o x.pkl",
        "export -o x/",
    ),
    *("diff {0}", "gate --max-peak 1GiB", "summary {0}"),
)


@pytest.mark.parametrize("bounds", ["--from 3", "--from 2 --to 1", "--from 1 --to 1", "--to 0"])
@pytest.mark.parametrize("command", COMMANDS)
def test_range_without_events_is_an_error(
    runner: CliRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    bounds: str,
) -> None:
    path = recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    name, *more = command.format(path).split()
    result = runner.invoke(app, [name, path, *more, *bounds.split()])
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pkl"]
    assert result.exit_code == 2, result.output
    assert f"no events in {bounds}; device 0 has events 0 to 2\n" in result.stderr


@pytest.mark.parametrize("bounds", ["--from 2ms", "--from 1s --to 2s", "--to 1999-01-01"])
def test_error_shows_which_times_have_events(
    runner: CliRunner, tmp_path: Path, bounds: str
) -> None:
    result = runner.invoke(app, ["peak", recorded(tmp_path), *bounds.split()])
    assert result.exit_code == 2
    assert "; device 0 has events 0 to 2, from 20" in result.stderr
    assert result.stderr.endswith("UTC on for 0.001 s\n")


def test_range_may_be_empty_on_other_devices(runner: CliRunner, tmp_path: Path) -> None:
    builder = SnapshotBuilder(2).alloc(0x1000, 64).alloc(0x1000, 64, 1).alloc(0x2000, 64, 1)
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(builder.finish_segments().build()))
    assert runner.invoke(app, ["peak", str(path), "--from", "1"]).exit_code == 0
    result = runner.invoke(app, ["peak", str(path), "--from", "1", "--device", "0"])
    assert result.stderr.endswith("no events in --from 1; device 0 has events 0 to 0\n")


def test_error_lists_some_of_many_devices(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["peak", recorded(tmp_path, devices=5), "--from", "9"])
    assert "device 2 has events 0 to 2 and 2 more devices\n" in result.stderr


def test_range_of_a_file_without_events_is_an_error(runner: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump({"segments": [{"address": 4096, "total_size": 2 << 20}]}))
    result = runner.invoke(app, ["peak", str(path), "--from", "1s"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("no events in --from 1s: none were recorded\n")


def stepped() -> bytes:
    builder = SnapshotBuilder()
    for step in range(3):
        at = START_US + 100 * step
        builder.annotation(f"ProfilerStep#{step}", "START", at)
        builder.alloc(0x1000, 100 * (step + 1), time_us=at + 10)
        builder.free_completed(0x1000, 100 * (step + 1), time_us=at + 20)
        builder.annotation(f"ProfilerStep#{step}", "END", at + 30)
    return build.dump(builder.build())


@pytest.mark.parametrize(
    "bounds, peak",
    [
        ("--from step:2 --to step:2", 200),
        ("--to step:2", 200),
        ("--from step:2", 300),
        ("--to ProfilerStep#0", 100),
        ("--from step:1 --to peak", 300),
    ],
)
def test_range_bounds_take_any_moment(
    runner: CliRunner, tmp_path: Path, bounds: str, peak: int
) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(stepped())
    again = tmp_path / "part.pkl"
    asked = ["export", str(path), "-o", str(again), *bounds.split()]
    assert runner.invoke(app, asked).exit_code == 0
    for words in ([str(path), *bounds.split()], [str(again)]):
        found = json.loads(runner.invoke(app, ["peak", *words, "--json"]).stdout)
        assert found["devices"][0]["peak_bytes"] == peak


def test_standard_input_that_cannot_be_read_twice_is_an_error(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
        with pytest.raises(UsageError, match="can be read only once"), opened("-", STEP):
            pytest.fail("it was opened")


STEP = Reading(start=When("step", 2))
