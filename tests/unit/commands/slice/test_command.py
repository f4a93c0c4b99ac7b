"""Tests of commands/slice/command.py."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = SnapshotBuilder()
    for i in range(8):
        builder.alloc(0x1000 * (i + 1), 100 << i, frames=[("f", "f.py", i)])
    builder.free(0x1000, 100, frames=[("g", "g.py", 1)])
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder.finish_segments().build()))
    return made


def test_a_range(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.pkl"
    result = runner.invoke(app, ["slice", str(path), "--from", "4", "-o", str(out)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "device 0: events 4 to 9 (6); 1 added before them for what was live then\n"
    )
    assert mr.open(out).replay().peak.bytes == mr.open(path).replay().peak.bytes
    events = pickle.loads(out.read_bytes())["device_traces"][0]
    assert [event.get("memreplay_carried") for event in events] == [True, *[None] * 6]
    assert (events[0]["size"], events[0]["frames"][0]["name"]) == (100, "f")
    # Whatever is there stays.
    before = out.read_bytes()
    again = runner.invoke(app, ["slice", str(path), "-o", str(out)])
    assert (again.exit_code, out.read_bytes()) == (2, before)
    assert again.stderr == f"memreplay: error: {out} already exists; give --force to replace it\n"
    assert runner.invoke(app, ["slice", str(path), "-o", str(out), "--force"]).exit_code == 0
    assert out.read_bytes() != before


def test_the_same_bytes_each_time(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    for ending in (".pkl", ".json", ".pkl.gz", ".json.xz", ".pkl.bz2"):
        first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
        for out in (first, second):
            arguments = ["slice", str(path), "--from", "3", "-o", str(out)]
            assert runner.invoke(app, arguments).exit_code == 0
        assert first.read_bytes() == second.read_bytes()
        assert mr.open(first).replay().events == 7


def test_json_by_name_or_by_format(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.json.gz"
    assert runner.invoke(app, ["slice", str(path), "-o", str(out)]).exit_code == 0
    made = json.loads(gzip.decompress(out.read_bytes()))
    result = runner.invoke(app, ["slice", str(path), "--format", "json"])
    assert json.loads(result.stdout_bytes) == made


def test_smaller(runner: CliRunner, path: Path) -> None:
    result = runner.invoke(app, ["slice", str(path), "--min-bytes", "1K", "--strip-frames"])
    assert result.stderr == (
        "device 0: 4 of events 0 to 9 (10); left out: 4 small allocations of 1.5 KiB in all\n"
    )
    made = pickle.loads(result.stdout_bytes)
    assert [event["size"] for event in made["device_traces"][0]] == [1600, 3200, 6400, 12800]
    assert all(event["frames"] == [] for event in made["device_traces"][0])
    states = [block["state"] for segment in made["segments"] for block in segment["blocks"]]
    assert states.count("inactive") == 3


@pytest.mark.parametrize("arguments", [["-o", "x.zip"], ["--strip-frames", "some"]])
def test_wrong_usage(runner: CliRunner, path: Path, arguments: list[str]) -> None:
    result = runner.invoke(app, ["slice", str(path), *arguments])
    assert result.exit_code == 2
    assert not Path("x.zip").exists()


def test_what_cannot_be_read_leaves_nothing(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])
    out = tmp_path / "small.pkl"
    result = runner.invoke(app, ["slice", str(path), "-o", str(out)])
    assert result.exit_code == 4
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()
    salvaged = runner.invoke(app, ["slice", str(path), "--salvage", "-o", str(out)])
    assert salvaged.exit_code == 0
    assert mr.open(out).truncation is None
