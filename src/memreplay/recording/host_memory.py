"""Measure this process's host memory, and the part that PyTorch's pinned-memory allocator holds.

Needs only the standard library: a dry run loads this file by path in any Python.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

STATUS = "/proc/self/status"
_KIB = 1024
# What PyTorch's statistics call pinned memory in use, and all that its allocator holds. Older
# versions of PyTorch have other names.
NAMES = ("active_bytes", "allocated_bytes")
OLDER_NAMES = ("allocated_bytes", "reserved_bytes")


# The columns of samples in a snapshot (docs/format.md).
COLUMNS = (
    "times_us",
    "resident_bytes",
    "shared_bytes",
    "pinned_active_bytes",
    "pinned_bytes",
)
Row = tuple[int | None, ...]


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


def time_us() -> int:
    return time.time_ns() // 1000


def row_of(now: HostMemory) -> Row:
    """Return a sample's row of `COLUMNS`."""
    return time_us(), now.resident, now.shared, now.pinned_active, now.pinned


def columns_of(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[int | None]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def described_host(rows: Sequence[Row], now: HostMemory, events: int | None) -> dict[str, Any]:
    """Return samples in the form stored in a snapshot (docs/format.md).

    `now`: the last one. `events`: how many events of pinned memory the snapshot has, if any.
    """
    return {
        **columns_of(tuple(rows), COLUMNS),
        "resident_peak_bytes": now.resident_peak,
        "pinned_peak_bytes": now.pinned_peak,
        **({"pinned_events": events} if events else {}),
    }


def pinned_events(snapshot: dict[str, Any]) -> int:
    """Return how many events of pinned memory PyTorch recorded."""
    found = snapshot.get("host_traces") or []
    # One list, or one for each of several traces.
    return sum(len(one) if isinstance(one, list) else 1 for one in found)


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
