"""Run a recorded program that writes what it uses, and waits: python -m tests.truth.alive FOLDER.

It waits until the file `end` exists in the folder, at most two minutes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import memreplay

LONGEST = 120


def now() -> dict[str, Any]:
    free, total = torch.cuda.mem_get_info()
    return {
        "pid": os.getpid(),
        "free": free,
        "total": total,
        "allocated": torch.cuda.memory_allocated(),
        "allocated_peak": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "reserved_peak": torch.cuda.max_memory_reserved(),
    }


def main(folder: Path) -> None:
    with memreplay.record(folder / "end.pickle", overwrite=True) as recorder:
        kept = [torch.ones(1 << 20, 64, device="cuda") for _ in range(3)]
        freed = torch.ones(1 << 20, 32, device="cuda")
        del freed
        recorder.step()
        told = folder / "told.part"
        told.write_text(json.dumps(now()))
        told.rename(folder / "told.json")
        until = time.monotonic() + LONGEST
        while not (folder / "end").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert kept


if __name__ == "__main__":
    main(Path(sys.argv[1]))
