"""Query PyTorch about allocator settings, one per input line; tests/truth/settings.py says why.

It runs dry, in a process that has torch but not memreplay.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch

MIB = 1 << 20
MOST = 1 << 34  # sizes that are actually requested, in bytes
# Settings that keep their value if the string doesn't mention them.
BACK = "expandable_segments:False,large_segment_size_mb:20"


def ask() -> None:
    lines = [json.loads(line) for line in sys.stdin]
    # First query the settings that need a process without CUDA.
    alone = {i: in_child(one) for i, one in enumerate(lines) if one.get("alone")}
    for i, one in enumerate(lines):
        json.dump(alone.get(i) or told_now(one), sys.stdout)
        sys.stdout.write("\n")
    sys.stdout.flush()
    os._exit(0)


def in_child(one: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a child process that starts with this setting."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = one["text"]
        try:
            torch.cuda.init()
            found = {
                "error": None,
                "found": settings(),
                "fraction": torch.cuda.get_per_process_memory_fraction(0),
            }
        except Exception as error:
            found = {"error": str(error)}
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    found = json.loads(said)
    assert isinstance(found, dict)
    return found


def told_now(one: dict[str, Any]) -> dict[str, Any]:
    """Set this process's allocator settings; return what the allocator reports and does."""
    give(BACK)
    try:
        give(one["text"])
    except Exception as error:
        return {"error": str(error)}
    found = settings()
    told: dict[str, Any] = {"error": None, "found": found}
    if "segment" in one:
        told["segment"] = reserved_by(2 * MIB)
    limit = found["max_split_size"]
    if "non_split" in one and 0 < limit < MOST:
        more = one["non_split"]
        told["reused"] = [reuses(limit, more - 2 * MIB), reuses(limit, more)]
    return told


def reuses(size: int, more: int) -> bool:
    """Return whether a cached block this many bytes larger serves a request of this size."""
    torch.cuda.empty_cache()
    cached = block(size + more)
    del cached
    before = torch.cuda.memory_reserved()
    asked = block(size)
    after = torch.cuda.memory_reserved()
    del asked
    torch.cuda.empty_cache()
    return bool(after == before)


def reserved_by(size: int) -> int:
    """Return the bytes of the segment that serves a first request."""
    torch.cuda.empty_cache()
    made = block(size)
    reserved = torch.cuda.memory_reserved()
    del made
    torch.cuda.empty_cache()
    return int(reserved)


def block(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def settings() -> dict[str, Any]:
    found = torch.cuda.memory._snapshot()["allocator_settings"]
    assert isinstance(found, dict)
    return found


def give(text: str) -> None:
    torch._C._accelerator_setAllocatorSettings(text)


ask()
