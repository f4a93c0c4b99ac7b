"""Benchmark the engine's stages on a generated snapshot of 25 MB.

    pytest bench/test_engine.py --benchmark-only

Not part of `make test`, which collects tests/ only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from compare import generated
from memreplay.analysis.groups.grouping import Grouper
from memreplay.commands.at.find import at_report
from memreplay.commands.peak.find import peak_report
from memreplay.snapshot.model import By, When

# pytest-benchmark's fixture is only partly typed.
BenchmarkFixture = Any
MEGABYTES = 25
ROUNDS = 20


@pytest.fixture(scope="module")
def file() -> Path:
    return generated(MEGABYTES)


@pytest.fixture(scope="module")
def snapshot(file: Path) -> mr.Snapshot:
    return mr.open(file)


def test_open(benchmark: BenchmarkFixture, file: Path) -> None:
    """Read and parse into columns."""
    snapshot = benchmark(mr.open, file)
    benchmark.extra_info["bytes"] = file.stat().st_size
    benchmark.extra_info["events"] = len(snapshot.events)
    assert snapshot.devices == (0,)


def test_replay(benchmark: BenchmarkFixture, file: Path) -> None:
    """Match allocations with frees, sum up, find the peak."""

    def fresh() -> tuple[tuple[mr.Snapshot], dict[str, object]]:
        # A snapshot caches its replays, so open a new one each time.
        return (mr.open(file),), {}

    peak = benchmark.pedantic(
        lambda snapshot: snapshot.replay(0).peak, setup=fresh, rounds=ROUNDS, warmup_rounds=1
    )
    assert peak.bytes > 1 << 30


@pytest.mark.parametrize("by", ["stack", "line", "file", "function"])
def test_groups(benchmark: BenchmarkFixture, snapshot: mr.Snapshot, by: By) -> None:
    """Group the live set at the peak; the replay is done beforehand."""
    snapshot.replay(0)
    report = benchmark(peak_report, snapshot, by=by)
    assert report.devices[0].groups


@pytest.mark.parametrize(
    "name",
    [
        *("allocations", "timeline", "fragmentation", "oom", "simulate"),
        *("steps", "leaks"),
    ],
)
def test_report(benchmark: BenchmarkFixture, file: Path, name: str) -> None:
    """Run a command on a file that is already read and replayed."""
    command = importlib.import_module(f"memreplay.commands.{name}.find")

    def replayed() -> tuple[tuple[mr.Snapshot], dict[str, object]]:
        snapshot = mr.open(file)
        snapshot.replay(0)
        return (snapshot,), {}

    report = getattr(command, f"{name}_report")
    found = benchmark.pedantic(report, setup=replayed, rounds=ROUNDS, warmup_rounds=1)
    assert found.devices


@pytest.mark.parametrize("what", ["largest", "live_at", "groups", "parts", "report"])
def test_at_many_events(benchmark: BenchmarkFixture, file: Path, what: str) -> None:
    """Query the live set at a thousand events: its largest allocations, all allocations, groups by
    stack and by pool, and everything that `at --list` reports. The first round builds the index.
    """
    snapshot = mr.open(file)
    usage = snapshot.replay(0).measure()
    ranks = Grouper(snapshot, "stack")
    events = range(0, usage.replay.events, usage.replay.events // 1_000)
    moments = [When("event", event) for event in events]
    ask: dict[str, Callable[[], object]] = {
        "largest": lambda: [usage.largest(event, 10) for event in events],
        "live_at": lambda: [usage.live_at(event=event) for event in events],
        "groups": lambda: [ranks.groups(usage, event, 10) for event in events],
        "parts": lambda: [usage.parts("pool", event) for event in events],
        "report": lambda: at_report(snapshot, moments, listed=True),
    }
    benchmark(ask[what])


def test_usage(benchmark: BenchmarkFixture, file: Path) -> None:
    """Return the usage after each event as an array."""

    def replayed() -> tuple[tuple[mr.Replay], dict[str, object]]:
        return (mr.open(file).replay(0),), {}

    usage = benchmark.pedantic(
        lambda replay: replay.usage, setup=replayed, rounds=ROUNDS, warmup_rounds=1
    )
    assert usage.max() > 1 << 30
