"""Recordings from a real GPU match PyTorch's own memory statistics exactly.

bench/record_cuda.py made them on an H100 with PyTorch 2.11: a training program with checkpoints,
two streams, a CUDA graph, a separate pool, a failed request, and torch.compile in one recording.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.trust.trust import verdict
from memreplay.snapshot.model import MeasureName
from tests import oracle
from tests.compare import assert_like_oracle

FOLDER = Path(__file__).resolve().parents[1] / "data" / "cuda"
# As in memory_stats().
MEASURES: tuple[MeasureName, ...] = ("requested", "active", "allocated", "reserved")
NAMES = ["compiled", "cpp", "default", "expandable", "late"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(name: str) -> Path:
    return FOLDER / f"{name}.pickle.gz"


@pytest.fixture
def told(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_every_recording_exists() -> None:
    assert sorted(one.name.partition(".")[0] for one in FOLDER.glob("*.gz")) == NAMES


def test_measures_match_pytorchs_memory_stats(path: Path, told: Any) -> None:
    snap = mr.open(path)
    for measure in MEASURES:
        usage = snap.replay(0).measure(measure)
        found = usage.start_bytes, usage.peak.bytes, usage.end_bytes
        of = f"{measure}_bytes.all"
        end = told["end"]
        assert found == (told["before"][f"{of}.current"], end[f"{of}.peak"], end[f"{of}.current"])
        # Memory allocated before a recording is known only if it's still allocated at the end.
        exact = measure != "allocated" or not told["warm_steps"]
        assert verdict(snap, usage).exact is exact
        assert verdict(snap, usage).trusted


def test_counts_match_pytorchs_memory_stats(path: Path, told: Any) -> None:
    snap = mr.open(path)
    actions = [snap.action_name(code) for code in snap.events.action.tolist()]

    def counted(name: str) -> int:
        return int(told["end"][name] - told["before"][name])

    assert actions.count("oom") == counted("num_ooms") == 1
    assert actions.count("alloc") == counted("allocation.all.allocated")
    assert actions.count("free_requested") == counted("allocation.all.freed")


def test_failed_request_is_explained(path: Path, told: Any) -> None:
    (one,) = mr.oom(mr.open(path)).devices[0].ooms
    assert (one.cause, one.request_bytes) == ("request_too_large", 1 << 42)
    assert f"Tried to allocate {one.request_bytes / (1 << 30):.2f} GiB" in told["oom"]
    assert one.device_free_bytes is not None
    assert f"of which {one.device_free_bytes / (1 << 30):.2f} GiB is free" in told["oom"]


def test_snapshot_matches_the_oracle(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    assert_like_oracle(data, oracle.load(data))
