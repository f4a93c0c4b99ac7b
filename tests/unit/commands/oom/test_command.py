"""Tests of commands/oom/command.py, on small files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.analysis.groups.ways import WAYS
from memreplay.commands.app import app
from tests import build
from tests.allocator_blocks import MIB
from tests.unit.commands.oom.test_find import KEEP, fail, machine, scattered
from tests.unit.render.schemas import check_against


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "snap.pkl"
    made = scattered()
    fail(made.devices[0], 45 * MIB)
    file.write_bytes(build.dump(made.dump()[0]))
    return str(file)


def ask(runner: CliRunner, path: str, *options: str) -> Result:
    return runner.invoke(app, ["oom", path, *options])


def test_first_failure_is_shown_in_detail(runner: CliRunner, path: str) -> None:
    done = ask(runner, path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "device 0: 2 requests failed" in done.stdout
    assert "30.0 MiB request failed at event 90 of 92 (oom 1): fragmentation" in done.stdout
    assert "(oom 2)" not in done.stdout


def test_another_failure_or_all_can_be_shown(runner: CliRunner, path: str) -> None:
    done = ask(runner, path, "--oom", "2")
    assert "(oom 2)" in done.stdout
    assert "(oom 1)" not in done.stdout
    done = ask(runner, path, "--oom", "0")
    assert "(oom 1)" in done.stdout
    assert "(oom 2)" in done.stdout
    done = ask(runner, path, "--oom", "3")
    assert (done.exit_code, done.stdout) == (2, "")
    assert " on one device; there is no number 3" in done.stderr
    done = ask(runner, path, "--oom", "-1")
    assert done.exit_code == 2
    assert "-1 is below 0" in done.stderr


@pytest.mark.parametrize("by", [*WAYS, "category,file", "stream,size"])
def test_json_adds_up_for_every_key(runner: CliRunner, path: str, by: str) -> None:
    done = ask(runner, path, "--format", "json", "--by", by, "--total-memory", "1GiB")
    found = json.loads(done.stdout)
    check_against("oom-1.json", found)
    (device,) = found["devices"]
    assert [one["cause"] for one in device["ooms"]] == ["fragmentation"] * 2
    assert (device["total_memory_bytes"], device["total_memory_known"]) == (1 << 30, True)
    for one in device["ooms"]:
        assert sum(part["bytes"] for part in one["cached"]) == one["cached_bytes"] == 100 * MIB
        assert sum(group["bytes"] for group in one["groups"]) == one["active_bytes"]
        assert sum(pin["bytes"] for pin in one["pins"]) == one["pinned_bytes"]
    assert found["by"] == by
    shown = ask(runner, path, "--by", by)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "  blocked by" in shown.stdout


def test_card_smaller_than_the_usage_is_an_error(runner: CliRunner, path: str) -> None:
    done = ask(runner, path, "--total-memory", "100MiB")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--total-memory is below what device 0 had" in done.stderr
    done = ask(runner, path, "--total-memory", "much")
    assert done.exit_code == 2
    assert "is not a size" in done.stderr


def test_file_without_failures_exits_with_0(runner: CliRunner, tmp_path: Path) -> None:
    made, device = machine(64 * MIB)
    device.malloc(5 * MIB, 0, KEEP)
    file = tmp_path / "fine.pkl"
    file.write_bytes(build.dump(made.dump()[0]))
    done = ask(runner, str(file), "--strict")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "no out-of-memory event in this file" in done.stdout
    found = json.loads(ask(runner, str(file), "--format", "json").stdout)
    check_against("oom-1.json", found)
    assert [device["ooms"] for device in found["devices"]] == [[]]
