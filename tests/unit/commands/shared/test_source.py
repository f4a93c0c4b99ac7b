"""Tests of commands/shared/source.py."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.source import Reading, opened
from memreplay.io.limits import Limits
from memreplay.snapshot.model import Moment
from tests import build
from tests.build import START_US, SnapshotBuilder
from tests.unit.commands.conftest import FakeLibrary


def test_a_file_is_closed_afterwards(library: FakeLibrary) -> None:
    with opened("snap.pkl", Reading()):
        (snapshot,) = library.snapshots
        assert (snapshot.source, snapshot.closed) == ("snap.pkl", False)
    assert snapshot.closed


def test_a_dash_is_standard_input(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\x80\x04"))
    monkeypatch.setattr(sys, "stdin", stdin)
    with opened("-", Reading()):
        assert library.snapshots[0].source is stdin.buffer


def test_a_file_that_cannot_be_opened(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.errors["snap.pkl"] = FileNotFoundError()
    with pytest.raises(FileNotFoundError), opened("snap.pkl", Reading()):
        pytest.fail("it was opened")
    assert library.snapshots == []


def test_what_to_read_reaches_the_library(library: FakeLibrary) -> None:
    start = Moment("event", 7)
    with opened("snap.pkl", Reading(device=2, start=start, salvage=True)):
        assert library.reading == {
            "device": 2,
            "start": start,
            "stop": None,
            "salvage": True,
            "limits": Limits(),
            "project": (),
            "pick": None,
        }


def recorded(tmp_path: Path, events: int = 3, devices: int = 1) -> str:
    builder = SnapshotBuilder(devices)
    for i in range(events * devices):
        builder.alloc(0x1000 * (i + 1), 64, i % devices, time_us=START_US + 500 * (i // devices))
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder.finish_segments().build()))
    return str(made)


COMMANDS = (
    *("peak", "summary", "timeline", "segments", "fragmentation", "oom", "steps", "leaks"),
    *(
        "allocations",
        "categories",
        "export --format txt",
        "at --end",
        "simulate",
        "fits",
        "export -o x.pkl",
        "export -o x/",
    ),
    *("diff {0}", "gate --max-peak 1GiB", "summary {0}"),
)


@pytest.mark.parametrize("bounds", ["--from 3", "--from 2 --to 1", "--from 1 --to 1", "--to 0"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_range_without_events(
    runner: CliRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    bounds: str,
) -> None:
    path = recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, [*command.format(path).split(), path, *bounds.split()])
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pkl"]
    assert result.exit_code == 2, result.output
    assert f"no events in {bounds}; device 0 has events 0 to 2\n" in result.stderr


@pytest.mark.parametrize("bounds", ["--from 2ms", "--from 1s --to 2s", "--to 1999-01-01"])
def test_a_range_in_time_without_events(runner: CliRunner, tmp_path: Path, bounds: str) -> None:
    result = runner.invoke(app, ["peak", recorded(tmp_path), *bounds.split()])
    assert result.exit_code == 2
    assert "; device 0 has events 0 to 2, from 20" in result.stderr
    assert result.stderr.endswith("UTC on for 0.001 s\n")


def test_a_range_that_one_device_has(runner: CliRunner, tmp_path: Path) -> None:
    builder = SnapshotBuilder(2).alloc(0x1000, 64).alloc(0x1000, 64, 1).alloc(0x2000, 64, 1)
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(builder.finish_segments().build()))
    assert runner.invoke(app, ["peak", str(path), "--from", "1"]).exit_code == 0
    result = runner.invoke(app, ["peak", str(path), "--from", "1", "--device", "0"])
    assert result.stderr.endswith("no events in --from 1; device 0 has events 0 to 0\n")


def test_a_range_of_many_devices(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["peak", recorded(tmp_path, devices=5), "--from", "9"])
    assert "device 2 has events 0 to 2 and 2 devices more\n" in result.stderr


def test_a_range_of_nothing(runner: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump({"segments": [{"address": 4096, "total_size": 2 << 20}]}))
    result = runner.invoke(app, ["peak", str(path), "--from", "1s"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("no events in --from 1s: none were recorded\n")
