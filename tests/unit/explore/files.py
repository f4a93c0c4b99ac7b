"""The snapshots used by these tests."""

from __future__ import annotations

from memreplay.explore.explored import Explored
from tests.conftest import SNAPSHOTS

NAMES = ("two_gpus", "recorded_gpt", "serving_oom", "cuda_graphs", "fsdp_ranks/rank0")
FILES = [next(path for path in SNAPSHOTS if path.match(f"{name}*")) for name in NAMES]


def moments(explored: Explored, device: int) -> list[int]:
    """Return the start, the peak, the end, and some events in between."""
    low, high = explored.bounds(device)
    peak = explored.first_look(device).event
    return sorted({low, peak, (low + high) // 2})
