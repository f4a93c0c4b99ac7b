"""If a recording shows only part of a run, the command line trusts only that part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB
from tests.build import SnapshotBuilder
from tests.integration.test_cli import run

CODE = (("train", "train.py", 5),)
MISSING = "an earlier, higher peak may be missing"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record one tensor of 3,000 MiB, then 2,000 small ones. Save the whole recording; its last
    1,000 events; the same events with notes from memreplay's recorder; only the final state; and
    the final state with only a dump's event.
    """
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


def rule_of(limits: tuple[object, ...]) -> str:
    """Return the name under which a report lists the first limit."""
    return f"forbid-{limits[1]}" if limits[0] == "--forbid" else str(limits[0])[2:]


def test_whole_recording_is_exact(folder: Path) -> None:
    file = folder / "whole.pickle"
    assert "no request failed, exact" in words(run("report", file).stdout)
    assert "trust Exact: the snapshot is consistent." in words(run("report", file).stdout)
    done = run("gate", file, "--max-peak", "4GiB", "--forbid", "oom", "--strict")
    assert (done.returncode, done.stdout[:4]) == (0, "PASS")
    done = run("gate", file, "--max-peak", "1GiB", "--forbid", "oom")
    assert done.stdout.startswith("FAIL peak held 2.9 GiB > 1 GiB")


@pytest.mark.parametrize("name, how", [("ring", "was probably full"), ("noted", "was full")])
def test_full_ring_buffer_limits_trust_to_its_events(folder: Path, name: str, how: str) -> None:
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
    assert "active bytes are close to their peak in the last 1,000 events" in words(
        run("oom", file).stdout
    )
    for limits in (
        ("--max-peak", "1GiB"),
        ("--max-reserved", "9GiB"),
        ("--max-fragmentation", "100%"),
        ("--forbid", "oom"),
        ("--max-peak", "1GiB", "--forbid", "oom", "--strict"),
    ):
        done = run("gate", file, *limits)
        assert done.returncode == 1, limits
        first, *_ = done.stdout.splitlines()
        assert first.startswith(
            f"FAIL {rule_of(limits)} couldn't be checked: the snapshot shows the"
        )
        assert f"last 1,000 events only: the ring buffer {how}, so an earlier" in first
    done = run("gate", file, "--max-peak", "1GiB", "--format", "json")
    (one,) = json.loads(done.stdout)["not_judged"]
    assert (one["outcome"], one["reasons"][0][:13]) == ("not_judged", "ring_overflow")
    # If the known part exceeds a limit, so does the whole run.
    assert run("gate", file, "--max-peak", "1KiB").stdout.startswith("FAIL peak held 39")
    assert run("gate", file, "--max-peak", "1GiB", "--allow-untrusted").returncode == 0
    # Nothing can be concluded from an incomplete base.
    done = run("gate", folder / "whole.pickle", "--base", file, "--max-growth", "0%")
    assert done.stdout.startswith("FAIL max-growth couldn't be checked: the base shows the last")


def test_summary_says_how_many_events_the_ring_buffer_dropped(folder: Path) -> None:
    text = words(run("summary", folder / "ring.pickle").stdout)
    assert "ring buffer probably full: exactly 1,000 events, a typical max_entries" in text
    text = words(run("summary", folder / "noted.pickle").stdout)
    dropped = mr.open(folder / "whole.pickle").trace_events(0) - 1000
    assert f"ring buffer dropped at least {dropped:,} events before these" in text


@pytest.mark.parametrize("name, what", [("state", "events were"), ("dump", "allocation was")])
def test_without_events_only_the_final_state_is_trusted(folder: Path, name: str, what: str) -> None:
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
        ("--max-peak", "80GB", "--forbid", "oom"),
        ("--max-reserved", "80GB"),
        ("--max-fragmentation", "100%"),
        ("--forbid", "oom"),
        ("--forbid", "leaks"),
        ("--max-growth", "900%", "--base", folder / "whole.pickle"),
    ):
        done = run("gate", file, *limits)
        assert done.returncode == 1, limits
        assert done.stdout.startswith(f"FAIL {rule_of(limits)} couldn't be checked: "), limits
