"""Measure this process's host memory, and the part that PyTorch's pinned-memory allocator holds."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any, NamedTuple

STATUS = "/proc/self/status"
_KIB = 1024
# What PyTorch's statistics call pinned memory in use, and all that its allocator holds. Older
# versions of PyTorch have other names.
NAMES = ("active_bytes", "allocated_bytes")
OLDER_NAMES = ("allocated_bytes", "reserved_bytes")


class HostMemory(NamedTuple):
    """A process's host memory in bytes; None where it's unknown."""

    resident: int | None = None
    """Memory that is in RAM."""
    shared: int | None = None
    """The part of `resident` that is shared memory, such as tensors from other processes."""
    resident_peak: int | None = None
    """Most resident memory since the process began."""
    pinned_active: int | None = None
    """Pinned memory that tensors use."""
    pinned: int | None = None
    """Pinned memory that PyTorch's allocator holds, in use or cached."""
    pinned_peak: int | None = None
    """The most that it held."""


def host_memory(devices: Any) -> HostMemory:
    """Measure this process. `devices`: torch.cuda or another device's module."""
    return HostMemory(*of_process(), *pinned(devices))


def of_process() -> tuple[int | None, int | None, int | None]:
    """Return resident and shared memory and the peak of resident memory."""
    try:
        with open(STATUS, encoding="ascii", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if line.endswith("kB\n"))
    except OSError:
        return None, None, peak_of_process()
    sizes = {name: int(text.split()[0]) * _KIB for name, text in lines.items()}
    return sizes.get("VmRSS"), sizes.get("RssShmem"), sizes.get("VmHWM")


def peak_of_process() -> int | None:
    """Return the peak of resident memory on systems without /proc; None on Windows."""
    if os.name != "posix":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * _KIB


def pinned(devices: Any) -> tuple[int | None, int | None, int | None]:
    """Return the pinned memory in use, what the allocator holds, and the most that it held."""
    statistics = getattr(devices, "host_memory_stats", None)
    if statistics is None or not devices.is_initialized():
        return None, None, None
    found: dict[str, int] = dict(statistics())
    used, held = NAMES if f"{NAMES[0]}.current" in found else OLDER_NAMES
    if counts_wrongly(os.path.dirname(os.path.dirname(getattr(devices, "__file__", "")))):
        found.pop(f"{used}.current", None)
    return found.get(f"{used}.current"), found.get(f"{held}.current"), found.get(f"{held}.peak")


@cache
def counts_wrongly(torch: str) -> bool:
    """Return whether the PyTorch in this folder subtracts -1 instead of a freed block's size, as
    PyTorch 2.11 does.
    """
    path = os.path.join(torch, "include", "ATen", "core", "CachingHostAllocator.h")
    try:
        with open(path, encoding="utf-8") as file:
            return "stats_.active_bytes_bucket_stats[index].decrease(size)" in file.read()
    except OSError:
        return False
