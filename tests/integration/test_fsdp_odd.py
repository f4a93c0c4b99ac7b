"""The recordings in examples/fsdp_odd_ranks match PyTorch's statistics from the same run, and show
the odd rank.
"""

from __future__ import annotations

import json

import pytest

import memreplay as mr
from memreplay.snapshot.model import MeasureName
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

FOLDER = ROOT / "examples" / "fsdp_odd_ranks"
RANKS = [FOLDER / f"rank{rank}.pkl.gz" for rank in range(8)]
ODD = 5
MEDIAN = 1  # a rank with the median peak, like 4 and 6
KINDS: tuple[MeasureName, ...] = ("requested", "allocated", "active", "reserved")


def counted() -> list[dict[str, int]]:
    """Return each rank's torch.cuda.memory_stats() at the end of the recorded run."""
    text = (ROOT / "examples" / "fsdp_odd" / "peaks.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def peak(rank: int, measure: MeasureName = "requested") -> int:
    """Return the peak of a rank's only device."""
    (device,) = mr.peak(mr.open(RANKS[rank]), measure=measure).devices
    assert device.device == rank
    return device.peak_bytes


def test_fleet_consists_of_eight_small_files() -> None:
    assert sorted(FOLDER.iterdir()) == RANKS
    assert all(path.stat().st_size < 60_000 for path in RANKS)


@pytest.mark.parametrize("rank", range(8))
def test_peaks_match_pytorch(rank: int) -> None:
    said = counted()[rank]
    assert said.pop("rank") == rank
    assert said == {kind: peak(rank, kind) for kind in KINDS}


def test_only_the_odd_rank_stands_out() -> None:
    peaks = {rank: peak(rank) for rank in range(8)}
    odd = peaks.pop(ODD)
    assert 1.15 < odd / max(peaks.values()) < 1.3
    assert 1.02 < max(peaks.values()) / min(peaks.values()) < 1.05
    assert len(set(peaks.values())) == 3
    assert sorted(peaks.values())[3] == peaks[MEDIAN]
    # No other rank stands out by reserved memory.
    reserved = {rank: peak(rank, "reserved") for rank in range(8)}
    assert reserved.pop(ODD) > max(reserved.values()) == min(reserved.values())


def test_first_rank_gathers_from_the_others() -> None:
    """The first rank receives each rank's losses for 512 tokens (two bytes each), then joins them
    in one tensor.
    """
    made = [metrics(rank) for rank in range(8)]
    count, n_bytes = made[1]
    assert made[0] == (count + 8 + 1, n_bytes + 2 * 8 * 1024)
    kept = made[ODD]
    assert kept[0] == count + 4
    assert {rank for rank in range(8) if made[rank] == (count, n_bytes)} == {1, 2, 3, 4, 6, 7}


def metrics(rank: int) -> tuple[int, int]:
    """Return the number of allocations in metrics.py, and their bytes."""
    (device,) = mr.allocations(mr.open(RANKS[rank]), by="file", top=0).devices
    (found,) = (group for group in device.groups if group.label.endswith("metrics.py"))
    return found.count, found.bytes


@pytest.mark.parametrize("rank", range(8))
def test_steps_match_the_recorder(rank: int) -> None:
    (device,) = mr.steps(mr.open(RANKS[rank])).devices
    assert device.step_source is not None
    assert device.step_source.found_by == "recorder"
    assert len(device.steps) == 4
    # The odd rank grows by its history; the others vary only with the batches' lengths.
    grown = [step.growth_bytes for step in device.steps[1:]]
    if rank == ODD:
        assert all(45 << 20 < growth < 70 << 20 for growth in grown)
    else:
        assert all(abs(growth) < 20 << 20 for growth in grown)


def test_ranks_hold_equal_shares_of_the_model() -> None:
    """At the peaks, all ranks hold the same parameters and optimizer state, and the same gathered
    parameters.
    """
    shares = [categories(rank) for rank in range(8)]
    for name in ("parameters", "optimizer state", "unsharded parameters"):
        (found,) = {one[name] for one in shares}
        assert found > 0


def categories(rank: int) -> dict[str, int]:
    """Return bytes at the peak by category."""
    (device,) = mr.peak(mr.open(RANKS[rank]), by="category", top=0).devices
    return {group.label: group.bytes for group in device.groups}


@pytest.mark.parametrize("rank", [rank for rank in range(8) if rank != ODD])
def test_report_names_the_code_that_makes_a_rank_odd(rank: int) -> None:
    (device,) = mr.diff(mr.open(RANKS[rank]), mr.open(RANKS[ODD])).devices
    first = device.rows[0]
    assert (first.status, first.base_bytes, first.new_count) == ("new", 0, 3)
    assert first.frames[0].function == "keep_history"
    assert first.frames[0].file.endswith("/fsdp_odd/metrics.py")
    # This code explains most of the difference, and more than any other code.
    assert first.change_bytes > 0.75 * device.change_bytes
    assert all(abs(row.change_bytes) < first.change_bytes / 4 for row in device.rows[1:])
    kept = {row.label: row.change_bytes for row in device.rows if "keep_history" in row.label}
    assert sum(kept.values()) == first.change_bytes
