"""Run a program whose memory outside PyTorch's allocator grows, and write what the driver says at
each snapshot: python -m tests.truth.outside FOLDER.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import torch

import memreplay


def now() -> dict[str, Any]:
    free, total = torch.cuda.mem_get_info()
    pinned = torch.cuda.host_memory_stats() if hasattr(torch.cuda, "host_memory_stats") else {}
    return {
        "free": free,
        "total": total,
        "reserved": torch.cuda.memory_reserved(),
        "pinned": pinned.get("allocated_bytes.current"),
        "pinned_active": pinned.get("active_bytes.current"),
    }


def main(folder: Path) -> None:
    told = {}
    known = inspect.signature(torch.cuda.memory._record_memory_history_impl).parameters
    host: dict[str, Any] = {name: True for name in ("record_pinned_host_memory",) if name in known}
    with memreplay.record(folder / "end.pickle", overwrite=True, **host) as recorder:

        def tell(name: str) -> None:
            recorder.dump(folder / f"{name}.pickle")
            told[name] = now()

        x = torch.ones(512, 512, device="cuda")
        tell("kernels")
        assert recorder._session.samples.exchange is not None
        x = x @ x
        tell("cublas")
        y = x.half() @ x.half()
        tell("more_kernels")
        torch.linalg.qr(x)
        tell("cusolver")
        pinned = [torch.empty(3 << 20, dtype=torch.uint8).pin_memory() for _ in range(3)]
        del pinned[0]
        tell("pinned")
        held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        tell("reserved")
        try:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            told["oom"] = now()
        del held, y
        torch.cuda.empty_cache()
        tell("released")
    (folder / "told.json").write_text(json.dumps(told))


main(Path(sys.argv[1]))
