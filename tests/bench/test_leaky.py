"""The small simulated training run is consistent, never varies, and matches the committed
example.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import leaky
import memreplay as mr
from tests import oracle
from tests.conftest import ROOT


@pytest.mark.parametrize("annotations", ["profiler", "optimizer", "none"])
def test_same_options_give_the_same_consistent_snapshot(annotations: str) -> None:
    options = leaky.Options(steps=12, annotations=annotations)
    made = leaky.snapshot(options)
    want = oracle.replay(made, 0)
    assert (want.reconciliation_bytes, want.double_allocs, want.unmatched_frees) == (0, 0, 0)
    names = {one["name"].partition("#")[0] for one in made.get("external_annotations", [])}  # type: ignore[attr-defined]
    assert (
        names
        == {
            "profiler": {"ProfilerStep", "Optimizer.step"},
            "optimizer": {"Optimizer.step"},
            "none": set(),
        }[annotations]
    )
    assert leaky.snapshot_bytes(options) == leaky.snapshot_bytes(options)


def test_committed_example_matches_the_script(tmp_path: Path) -> None:
    path = tmp_path / "made.pkl.gz"
    assert leaky.main(["-o", str(path), "--steps", "40"]) == 0
    example = ROOT / "tests/data" / "leaky_training.pkl.gz"
    assert gzip.decompress(path.read_bytes()) == gzip.decompress(example.read_bytes())
    assert example.stat().st_size < 60_000
    assert mr.open(example).replay().events == 5_412


def test_leak_annotations_and_stacks_are_optional(tmp_path: Path) -> None:
    path = tmp_path / "made.pkl"
    leaky.main(["-o", str(path), "--steps", "3", "--leak-bytes", "0", "--annotations", "none"])
    assert mr.open(path).replay().events > 300
    made = leaky.snapshot(leaky.Options(steps=2, stacks=False))
    assert all("frames" not in one for one in made["device_traces"][0])  # type: ignore[index]
