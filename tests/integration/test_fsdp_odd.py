"""The recordings of examples/fsdp_odd_ranks: what PyTorch said of that run, and what is odd."""

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
MEDIAN = 1  # in the middle of the ranks by their peaks, with 4 and 6
KINDS: tuple[MeasureName, ...] = ("requested", "allocated", "active", "reserved")


def counted() -> list[dict[str, int]]:
    """What torch.cuda.memory_stats() said in each rank, at the end of the run that was recorded."""
    text = (ROOT / "examples" / "fsdp_odd" / "peaks.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def peak(rank: int, measure: MeasureName = "requested") -> int:
    """Of the one device that a rank has."""
    (device,) = mr.peak(mr.open(RANKS[rank]), measure=measure).devices
    assert device.device == rank
    return device.peak_bytes


def test_there_are_eight_small_ones() -> None:
    assert sorted(FOLDER.iterdir()) == RANKS
    assert all(path.stat().st_size < 60_000 for path in RANKS)


@pytest.mark.parametrize("rank", range(8))
def test_peaks_are_those_that_pytorch_counted(rank: int) -> None:
    said = counted()[rank]
    assert said.pop("rank") == rank
    assert said == {kind: peak(rank, kind) for kind in KINDS}


def test_one_rank_is_above_the_others_and_these_differ_a_little() -> None:
    peaks = {rank: peak(rank) for rank in range(8)}
    odd = peaks.pop(ODD)
    assert 1.15 < odd / max(peaks.values()) < 1.3
    assert 1.02 < max(peaks.values()) / min(peaks.values()) < 1.05
    assert len(set(peaks.values())) == 3
    assert sorted(peaks.values())[3] == peaks[MEDIAN]
    # Reserved memory alone tells of no other.
    reserved = {rank: peak(rank, "reserved") for rank in range(8)}
    assert reserved.pop(ODD) > max(reserved.values()) == min(reserved.values())


def test_the_first_rank_gathers_what_the_others_send() -> None:
    """The losses of 512 tokens of each rank, two bytes each, then all of them in one tensor."""
    made = [metrics(rank) for rank in range(8)]
    count, n_bytes = made[1]
    assert made[0] == (count + 8 + 1, n_bytes + 2 * 8 * 1024)
    kept = made[ODD]
    assert kept[0] == count + 4
    assert {rank for rank in range(8) if made[rank] == (count, n_bytes)} == {1, 2, 3, 4, 6, 7}


def metrics(rank: int) -> tuple[int, int]:
    """How often memory was allocated in metrics.py, and how much."""
    (device,) = mr.allocations(mr.open(RANKS[rank]), by="file", top=0).devices
    (found,) = (group for group in device.groups if group.label.endswith("metrics.py"))
    return found.count, found.bytes


@pytest.mark.parametrize("rank", range(8))
def test_steps_are_those_that_the_recorder_noted(rank: int) -> None:
    (device,) = mr.steps(mr.open(RANKS[rank])).devices
    assert device.source is not None
    assert device.source.kind == "recorder"
    assert len(device.steps) == 4
    # The odd one grows by its history; of others what is left depends on the length of a batch.
    grown = [step.growth_bytes for step in device.steps[1:]]
    if rank == ODD:
        assert all(45 << 20 < growth < 70 << 20 for growth in grown)
    else:
        assert all(abs(growth) < 20 << 20 for growth in grown)


def test_each_rank_has_the_same_share_of_the_model() -> None:
    """At the peaks: parameters, the optimizer's states, and what FSDP2 gathers."""
    shares = [categories(rank) for rank in range(8)]
    for name in ("parameters", "optimizer state", "unsharded parameters"):
        (found,) = {one[name] for one in shares}
        assert found > 0


def categories(rank: int) -> dict[str, int]:
    """Bytes at the peak by what they are for."""
    (device,) = mr.peak(mr.open(RANKS[rank]), by="category", top=0).devices
    return {group.label: group.bytes for group in device.groups}


@pytest.mark.parametrize("rank", [rank for rank in range(8) if rank != ODD])
def test_the_code_that_makes_it_odd_is_named(rank: int) -> None:
    (device,) = mr.diff(mr.open(RANKS[rank]), mr.open(RANKS[ODD])).devices
    first = device.rows[0]
    assert (first.status, first.base_bytes, first.new_count) == ("new", 0, 3)
    assert first.frames[0].function == "keep_history"
    assert first.frames[0].file.endswith("/fsdp_odd/metrics.py")
    # Most of the difference, and more than anything else.
    assert first.change_bytes > 0.75 * device.change_bytes
    assert all(abs(row.change_bytes) < first.change_bytes / 4 for row in device.rows[1:])
    kept = {row.label: row.change_bytes for row in device.rows if "keep_history" in row.label}
    assert sum(kept.values()) == first.change_bytes
