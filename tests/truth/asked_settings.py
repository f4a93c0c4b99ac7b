"""Asks PyTorch of allocator settings, each a line of its input; tests/truth/settings.py says why.

It runs dry, in a process that has torch and not memreplay.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch

MIB = 1 << 20
MOST = 1 << 34  # bytes that are really asked for
# What a text that does not name them leaves as they were.
BACK = "expandable_segments:False,large_segment_size_mb:20"


def ask() -> None:
    lines = [json.loads(line) for line in sys.stdin]
    # First those that need a process without CUDA.
    alone = {i: in_child(one) for i, one in enumerate(lines) if one.get("alone")}
    for i, one in enumerate(lines):
        json.dump(alone.get(i) or told_now(one), sys.stdout)
        sys.stdout.write("\n")
    sys.stdout.flush()
    os._exit(0)


def in_child(one: dict[str, Any]) -> dict[str, Any]:
    """What a process says that begins with this text."""
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
    """What the allocator of this process says, and does, after it was given a text."""
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
    """Whether a cached block of so many more bytes serves a request of this size."""
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
    """Bytes of the segment that serves a first request."""
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
