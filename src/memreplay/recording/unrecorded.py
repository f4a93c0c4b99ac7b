"""Describe a program's memory where PyTorch can't record it: on CPUs, MPS and others."""

from __future__ import annotations

import sys
from typing import Any

from memreplay.recording.torch_here import find_torch
from memreplay.render.units import size


def accelerator_of(torch: Any) -> str:
    """Return the type of the machine's accelerator as PyTorch names it, such as "mps"; "" without
    one.
    """
    accelerator = getattr(torch, "accelerator", None)  # PyTorch 2.6 and later
    if accelerator is not None:
        device = accelerator.current_accelerator() if accelerator.is_available() else None
        return str(device.type) if device is not None else ""
    mps = getattr(getattr(torch, "backends", None), "mps", None)
    return "mps" if mps is not None and mps.is_available() else ""


def used() -> str:
    """Describe the most memory that this process has used, on the host and on its accelerator."""
    parts = []
    host = host_peak()
    if host is not None:
        parts.append(f"{size(host)} of host memory")
    torch, _ = find_torch()
    kind = "" if torch is None else accelerator_of(torch)
    allocated = accelerator_peak(torch) if kind else None
    if allocated is not None:
        parts.append(f"{size(allocated)} allocated on {kind}")
    return f"the process used at most {' and '.join(parts)}" if parts else ""


def host_peak(*, children: bool = False) -> int | None:
    """Return the most bytes that this process, or the largest of its ended children, had resident.

    None on systems that don't tell.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    peak = resource.getrusage(who).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def accelerator_peak(torch: Any) -> int | None:
    """Return the most bytes that tensors took on the accelerator, if this PyTorch counts them."""
    peak = getattr(getattr(torch, "accelerator", None), "max_memory_allocated", None)
    try:
        found = None if peak is None else peak()
    except Exception:  # not every accelerator's allocator counts
        return None
    return found or None
