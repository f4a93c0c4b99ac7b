"""CUDA itself uses part of a GPU's memory, and every command subtracts that part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memreplay.commands.app import app
from memreplay.snapshot.cards import find
from tests import build
from tests.allocator_blocks import MIB
from tests.build import SnapshotBuilder
from tests.commanding import command_runner

BASE = 1 << 40
CARD = find("A100-40")
USABLE = 1000 * MIB - CARD.context_bytes


def run(*args: str) -> tuple[int, str]:
    done = command_runner().invoke(app, args, prog_name="memreplay")
    return done.exit_code, done.stdout


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the snapshot of a dry run with --total-memory 1000MiB, which leaves 580.2 MiB. The
    program needs 568 MiB.
    """
    b = SnapshotBuilder().segment_alloc(BASE, 568 * MIB).alloc(BASE, 568 * MIB)
    made = b.free(BASE, 568 * MIB).finish_segments().build()
    noted = {"name": CARD.name, "total_bytes": 1000 * MIB}
    made["memreplay"] = {"version": 1, "recorder": "dryrun", "cards": [noted]}
    found = tmp_path / "dry.pickle"
    found.write_bytes(build.dump(made))
    return str(found)


def simulated(path: str, *more: str) -> dict[str, Any]:
    _, out = run("simulate", path, "--format", "json", *more)
    (found,) = json.loads(out)["devices"]
    return dict(found)


def test_simulation_leaves_memory_for_cuda(path: str) -> None:
    found = simulated(path)
    assert found["program_memory_bytes"] == found["recorded_program_memory_bytes"] == USABLE
    assert found["context_bytes"] == CARD.context_bytes
    assert found["failed"] is None
    # 624.8 MiB would fit the card, but not the part that CUDA leaves.
    larger = simulated(path, "--scale", "1.1")
    assert larger["failed"]["event_index"] == 1
    assert simulated(path, "--total-memory", "900MiB")["failed"]["event_index"] == 1
    _, out = run("simulate", path)
    said = "580.2 MiB for the program, after 419.8 MiB of the card for CUDA itself (an estimate)"
    assert said in " ".join(out.split())


def test_card_fits_only_if_it_leaves_memory_for_cuda(path: str) -> None:
    code, out = run("simulate", path, "--total-memory", "1000MiB,980MiB", "--format", "json")
    assert code == 1
    cards = json.loads(out)["devices"][0]["cards"]
    assert [one["fits"] for one in cards] == [True, False]
    assert {one["context_bytes"] for one in cards} == {CARD.context_bytes}
    text = run("simulate", path, "--total-memory", "2GiB")[1]
    assert "after 419.8 MiB of the card for CUDA itself" in " ".join(text.split())


def test_fleets_headroom_leaves_memory_for_cuda(path: str) -> None:
    _, out = run("fleet", path, "--total-memory", "1000MiB,980MiB", "--format", "json")
    (rank,) = json.loads(out)["ranks"]
    assert rank["devices"][0]["headroom_bytes"] == USABLE - 568 * MIB
    assert [one["fits"] for one in rank["devices"][0]["cards"]] == [True, False]
