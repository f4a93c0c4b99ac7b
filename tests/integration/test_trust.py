"""Recordings that show a part of what happened, through the command line: nothing vouches for the
rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.allocator import MIB, Machine
from tests.build import SnapshotBuilder
from tests.integration.test_cli import run

CODE = (("train", "train.py", 5),)
MISSING = "an earlier, higher peak may be missing"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tensor of 3,000 MiB, then 2,000 small ones: whole, the last 1,000 events, and these with
    what memreplay's recorder notes; a state without events, and one with that of a dump."""
    made = tmp_path_factory.mktemp("trust")
    machine = Machine()
    machine.begin_recording()
    device = machine.devices[0]
    large = device.malloc(3_000 * MIB, stack=CODE)
    assert large is not None
    device.free(large)
    live: list[Any] = []
    for _ in range(2000):
        live.append(device.malloc(4000, stack=CODE))
        if len(live) > 100:
            device.free(live.pop(0))
    whole, ring = machine.dump()[0], machine.dump(1000)[0]
    dropped = len(whole["device_traces"][0]) - 1000
    noted = {"recorder": "record", "max_entries": 1000, "dropped_events": [dropped]}
    state, dump = SnapshotBuilder(), SnapshotBuilder().snapshot_event(80 * MIB)
    for one in (state, dump):
        free = one.block((1 << 30) + 80 * MIB, 120 * MIB, 0, "inactive")
        one.segment(1 << 30, 200 * MIB, blocks=[one.block(1 << 30, 80 * MIB), free])
    for name, snapshot in (
        ("whole", whole),
        ("ring", ring),
        ("noted", ring | {"memreplay": noted}),
        ("state", state.build()),
        ("dump", dump.build()),
    ):
        (made / f"{name}.pickle").write_bytes(build.dump(snapshot))
    return made


def test_the_whole_recording_is_exact(folder: Path) -> None:
    file = folder / "whole.pickle"
    assert "no request failed, exact" in words(run("report", file).stdout)
    assert "trust Exact: the snapshot is consistent." in words(run("report", file).stdout)
    done = run("gate", file, "--max-peak", "4GiB", "--no-oom", "--strict")
    assert (done.returncode, done.stdout[:4]) == (0, "PASS")
    done = run("gate", file, "--max-peak", "1GiB", "--no-oom")
    assert done.stdout.startswith("FAIL peak held 2.9 GiB > 1 GiB")


@pytest.mark.parametrize("name, how", [("ring", "was probably full"), ("noted", "was full")])
def test_a_full_ring_buffer(folder: Path, name: str, how: str) -> None:
    file = folder / f"{name}.pickle"
    why = f"the ring buffer {how}, so {MISSING}"
    report = words(run("report", file).stdout)
    assert "no request failed in the last 1,000 events, exact for the last 1,000 events" in report
    assert f"trust Exact for the last 1,000 events only: {why}." in report
    assert "expandable_segments" not in report
    for command in ("report", "peak", "summary"):
        assert run(command, file).returncode == 0
        assert run(command, file, "--strict").returncode == 1, command
    assert "measure requested, exact for the last 1,000 events" in words(run("peak", file).stdout)
    assert "most that was active in the last 1,000 events" in words(run("oom", file).stdout)
    for limits in (
        ("--max-peak", "1GiB"),
        ("--max-reserved", "9GiB"),
        ("--max-fragmentation", "100%"),
        ("--no-oom",),
        ("--max-peak", "1GiB", "--no-oom", "--strict"),
    ):
        done = run("gate", file, *limits)
        assert done.returncode == 1, limits
        first, *_ = done.stdout.splitlines()
        assert first.startswith(f"FAIL {limits[0][2:]} could not be judged: the snapshot shows the")
        assert f"last 1,000 events only: the ring buffer {how}, so an earlier" in first
    done = run("gate", file, "--max-peak", "1GiB", "--format", "json")
    (one,) = json.loads(done.stdout)["not_judged"]
    assert (one["outcome"], one["reasons"][0][:13]) == ("not_judged", "ring_overflow")
    # What is above its limit is above it.
    assert run("gate", file, "--max-peak", "1KiB").stdout.startswith("FAIL peak held 39")
    assert run("gate", file, "--max-peak", "1GiB", "--allow-untrusted").returncode == 0
    # As a base it may hide anything.
    done = run("gate", folder / "whole.pickle", "--base", file, "--max-growth", "0%")
    assert done.stdout.startswith("FAIL max-growth could not be judged: the base shows the last")


def test_what_shows_the_overflow_and_how_much_is_lost(folder: Path) -> None:
    text = words(run("summary", folder / "ring.pickle").stdout)
    assert "ring buffer probably full: it has 1,000 events, a number that people pass" in text
    text = words(run("summary", folder / "noted.pickle").stdout)
    dropped = mr.open(folder / "whole.pickle").trace_events(0) - 1000
    assert f"ring buffer dropped at least {dropped:,} events before these" in text


@pytest.mark.parametrize("name, what", [("state", "events were"), ("dump", "allocation was")])
def test_nothing_was_recorded(folder: Path, name: str, what: str) -> None:
    file = folder / f"{name}.pickle"
    why = f"the final state only: no {what} recorded, so"
    report = words(run("report", file).stdout)
    assert f"no {what} recorded, exact for the final state trust Exact for {why}" in report
    assert "expandable_segments" not in report
    for command in ("report", "peak", "summary"):
        assert run(command, file, "--strict").returncode == 1, command
    oom = words(run("oom", file).stdout)
    assert "only the final state is known" in oom
    assert f"if it failed here not known: no {what} recorded" in oom
    for limits in (
        ("--max-peak", "80GB", "--no-oom"),
        ("--max-reserved", "80GB"),
        ("--max-fragmentation", "100%"),
        ("--no-oom",),
        ("--no-leaks",),
        ("--max-growth", "900%", "--base", folder / "whole.pickle"),
    ):
        done = run("gate", file, *limits)
        assert done.returncode == 1, limits
        assert done.stdout.startswith(f"FAIL {str(limits[0])[2:]} could not be judged: "), limits
