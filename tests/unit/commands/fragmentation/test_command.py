"""Tests of commands/fragmentation/command.py, on small files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.analysis.groups.ways import WAYS
from memreplay.commands.app import app
from memreplay.errors import install_command
from tests import build
from tests.allocator_blocks import MIB
from tests.build import SnapshotBuilder
from tests.unit.commands.oom.test_find import scattered
from tests.unit.render.schemas import check_against


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "snap.pkl"
    file.write_bytes(build.dump(scattered().dump()[0]))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["fragmentation", path, *options])


def test_text_shows_free_memory(runner: CliRunner, path: str) -> None:
    done = ask(runner, path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "100.0 MiB of 200.0 MiB reserved is free (50.0%), when a" in done.stdout
    assert "segment\n" not in done.stdout


def test_map_fits_the_width(runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for width, cells in (("80", 28), ("160", 100)):
        monkeypatch.setenv("COLUMNS", width)
        done = ask(runner, path, "--map", "--top", "2", "--at", "end")
        assert all(len(line) <= int(width) for line in done.stdout.splitlines())
        bars = [line.split()[4] for line in done.stdout.splitlines() if "#" * 5 in line]
        assert [len(bar) for bar in bars] == [cells] * 2
        assert "the 2 of 10 segments with the most free memory (--top 0 shows all)" in done.stdout


@pytest.mark.parametrize("options", [(), ("--map",), ("--at", "peak:1"), ("--by", "file,pool")])
def test_json_matches_the_schema(runner: CliRunner, path: str, options: tuple[str, ...]) -> None:
    done = ask(runner, path, "--format", "json", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    check_against("fragmentation-1.json", found)
    (device,) = found["devices"]
    assert len(device["map"]) == (10 if options == ("--map",) else 0)
    for segment in device["map"]:
        assert sum(block["bytes"] for block in segment["blocks"]) == 20 * MIB


@pytest.mark.parametrize("by", [*WAYS, "category,file", "size,stack"])
def test_every_key_adds_up(runner: CliRunner, path: str, by: str) -> None:
    shown = ask(runner, path, "--by", by, "--top", "0")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "  blocked by" in shown.stdout
    found = json.loads(ask(runner, path, "--by", by, "--top", "0", "--format", "json").stdout)
    check_against("fragmentation-1.json", found)
    (device,) = found["devices"]
    assert found["by"] == by
    assert sum(pin["bytes"] for pin in device["pins"]) == device["pinned_bytes"] > 0
    assert device["pins_rest_bytes"] == 0


def test_unknown_moment_is_an_error(runner: CliRunner, path: str) -> None:
    done = ask(runner, path, "--at", "peak:9")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no peak 9" in done.stderr


def test_device_without_the_moment_is_left_out(runner: CliRunner, tmp_path: Path) -> None:
    made = SnapshotBuilder(devices=2)
    for device in (0, 1):
        for number in range(3 - device):
            at = (device + 1) << 30 | number << 21
            made.event("segment_alloc", at, 2 * MIB, device=device)
    file = tmp_path / "two.pkl"
    file.write_bytes(build.dump(made.build()))
    done = ask(runner, str(file), "--at", "2")
    assert done.exit_code == 0
    assert "note: device 1 has no event 2" in done.stdout
    found = json.loads(ask(runner, str(file), "--at", "2", "--format", "json").stdout)
    assert [one["device"] for one in found["devices"]] == [0]
    assert len(found["missing"]) == 1


def test_output_is_only_for_pictures(runner: CliRunner, path: str, tmp_path: Path) -> None:
    done = ask(runner, path, "-o", str(tmp_path / "x.txt"))
    assert done.exit_code == 2
    assert "-o writes pictures; give --format png or svg, or use > FILE" in done.stderr


def test_pictures_need_an_extra(
    runner: CliRunner, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = ask(runner, path, "--format", "png", "-o", str(tmp_path / "x.png"))
    assert (done.exit_code, done.stdout) == (2, "")
    how = install_command("plot")
    assert done.stderr == f"memreplay: error: pictures need matplotlib: {how}\n"


@pytest.mark.parametrize("fmt, begin", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures_are_written(
    runner: CliRunner, path: str, tmp_path: Path, fmt: str, begin: bytes
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / f"map.{fmt}"
    done = ask(runner, path, "--format", fmt, "-o", str(out))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert out.read_bytes().startswith(begin)
    again = ask(runner, path, "--format", fmt, "-o", str(out))
    assert again.exit_code == 2
    assert "--force" in again.stderr
