"""Snapshots in the folders and under the names that trainers give them."""

from __future__ import annotations

from pathlib import Path

from tests import build
from tests.allocator import Machine

MIB = 1 << 20


def put_snapshot(path: Path, *peaks: int, kept: int = 0) -> Path:
    """A snapshot whose devices each keep `kept` MiB, and held so many more for a while."""
    machine = Machine(devices=len(peaks))
    for device, peak in zip(machine.devices, peaks, strict=True):
        if kept:
            device.malloc(kept * MIB, stack=(("collect", "metrics.py", 9),))
        block = device.malloc(peak * MIB, stack=(("forward", "model.py", 3),))
        assert block is not None
        device.free(block)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build.dump(machine.dump()[0]))
    return path
