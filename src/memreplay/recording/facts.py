"""Facts about PyTorch that recording depends on, and facts about a run for its snapshot.

Needs only the standard library: a dry run loads this file by path in any Python.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections import Counter

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# The counters in torch.cuda.memory_stats() for each action.
COUNTERS = {
    "alloc": "allocation.all.allocated",
    "free_requested": "allocation.all.freed",
    "free_completed": "active.all.freed",
}

# The argument of _record_memory_history for other threads' annotations. Without it, only the thread
# that begins can also end, and PyTorch complains about others.
ALL_THREADS = "global_record_annotations"

# The environment variables of launchers for a process's rank and the number of processes.
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)

INSTALLED = {"site-packages", "dist-packages"}  # names of library folders


def library_folders(torch: str) -> tuple[str, ...]:
    """Return the folders of library code, each with a trailing slash. `torch`: PyTorch's folder."""
    paths = sysconfig.get_paths()
    found = [torch, *(paths[one] for one in ("stdlib", "purelib", "platlib", "scripts"))]
    # The file names of torch.compile's output don't mean anything.
    found.append(os.environ.get("TORCHINDUCTOR_CACHE_DIR", torch))
    return tuple(os.path.join(one, "") for one in found if one)


def is_library(file: str, folders: tuple[str, ...]) -> bool:
    """Return whether a file belongs to a library.

    It does if it's in one of these folders, or was installed for another Python whose packages this
    one may use.
    """
    return file.startswith((*folders, "<frozen")) or not INSTALLED.isdisjoint(file.split(os.sep))


def tracing_slots(torch: str) -> tuple[int, int, int] | None:
    """Return the slots of PyInterpreterVTable for GPU allocation and free, and whether their
    arguments include the device type; None if this torch has no such slots.

    They are read from the headers shipped with torch: slots are in the order of declaration, and a
    destructor takes two (Itanium C++ ABI).
    """
    text = header(torch, "c10", "core", "impl", "PyInterpreter.h")
    body = re.search(r"struct C10_API PyInterpreterVTable \{(.*?)\n\};", text, re.DOTALL)
    places: dict[str, tuple[int, str]] = {}
    at = 0
    for declared in re.findall(r"virtual\s+([^;{]*)", body[1] if body else ""):
        name = re.search(r"(~?\w+)\s*\(", declared)
        if name is None:
            return None
        places[name[1]] = at, declared
        at += 2 if name[1].startswith("~") else 1
    taken, let_go = (places.get(f"trace_gpu_memory_{one}allocation") for one in ("", "de"))
    if taken is None or let_go is None:
        return None
    return taken[0], let_go[0], int("DeviceType" in taken[1])


def header(torch: str, *parts: str) -> str:
    """Return a torch header without comments, or "" if it doesn't exist."""
    try:
        with open(os.path.join(torch, "include", *parts), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return ""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def kept_events(
    traces: list[list[dict[str, Any]]],
    max_entries: int | None,
    before: list[dict[str, Any]],
    now: list[dict[str, Any]],
    skipped: Iterable[str] = (),
) -> dict[str, Any]:
    """Return how many events the ring buffer dropped, in the form used under memreplay's key.

    `before` and `now`: each device's memory_stats() at the start of the recording and just before
    the traces were read. `skipped`: actions that aren't recorded. `dropped_events` is a lower bound
    per device: PyTorch's counters minus the number of events in the trace. This bound is too low if
    the program reset the counters.
    """
    names = {action: name for action, name in COUNTERS.items() if action not in skipped}
    dropped = []
    for device, trace in enumerate(traces):
        old = before[device] if device < len(before) else {}
        new = now[device] if device < len(now) else {}
        since = sum(_since(old.get(name, 0), new.get(name, 0)) for name in names.values())
        there = Counter(event.get("action") for event in trace)
        dropped.append(max(0, since - sum(there[action] for action in names)))
    return {"max_entries": max_entries, "dropped_events": dropped}


def _since(old: int, new: int) -> int:
    return new - old if new >= old else new


def statistics_of(devices: Any) -> list[dict[str, Any]]:
    """Return each device's memory_stats(), or an empty list if that fails."""
    try:
        return [dict(devices.memory_stats(i)) for i in range(devices.device_count())]
    except Exception:  # the program has its own allocator, or this torch is unknown, so don't count
        return []


def arguments(record: Callable[..., Any], memory: Any) -> set[str]:
    """Return the parameter names of PyTorch's function; empty if it has no signature."""
    import inspect

    for function in (record, getattr(memory, "_record_memory_history_impl", None)):
        if function is None:
            continue
        parameters = inspect.signature(function).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "args"}
        if "stacks" in named:
            return named
    return set()


def history_context(version: str) -> str:
    """Return the events for which PyTorch should take stacks.

    PyTorch 2.11 loses a pending exception when it takes a stack during a free, and its handler
    (e.g. a nested checkpoint) gets a SystemError. With that version, take stacks only for
    allocations.
    """
    return "alloc" if version.startswith("2.11.") else "all"


# The environment variable that chooses how PyTorch names C++ frames, and its older name. PyTorch
# reads it once, at its first snapshot.
SYMBOLIZE, OLD_SYMBOLIZE = "TORCH_SYMBOLIZE_MODE", "TORCH_DISABLE_ADDR2LINE"
QUICK = ("dladdr", "fast")  # resolved inside the process


def stacks_for(asked: str, torch: str) -> str:
    """Return PyTorch's `stacks` argument, "python" or "all". `torch`: its folder.

    "auto" means "all" if C++ frames are cheap. This is the case on x86-64 Linux, the only platform
    on which every version can unwind them, with PyTorch 2.4 or later, which resolves names
    in-process. Older versions call addr2line, which takes minutes for large programs.
    """
    if asked != "auto":
        return asked
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "python"
    if "dladdr" not in header(torch, "torch", "csrc", "profiler", "unwind", "unwind.h"):
        return "python"
    chosen = os.environ.get(SYMBOLIZE)
    if chosen is None and OLD_SYMBOLIZE in os.environ:
        return "all" if os.environ[OLD_SYMBOLIZE] == "1" else "python"
    return "all" if chosen is None or chosen in QUICK else "python"


def name_frames_quickly() -> bool:
    """Resolve C++ frames in-process unless the user chose a method.

    Only the frames' names are needed. Returns whether the environment was changed.
    """
    if SYMBOLIZE in os.environ or OLD_SYMBOLIZE in os.environ:
        return False
    os.environ[SYMBOLIZE] = "dladdr"
    return True


def run_facts(torch: Any, devices: Any, ranks: tuple[int, int] | None) -> dict[str, Any]:
    """Return the facts about the run that are stored under memreplay's key (docs/format.md).

    `devices`: torch.cuda or torch.xpu. `ranks`: rank and world size, or None if unknown.
    """
    rank, world = ranks or ranks_of_environment()
    cards = [devices.get_device_properties(i) for i in range(devices.device_count())]
    return {
        "version": 1,
        "torch": str(torch.__version__),
        "cards": [{"name": one.name, "total_bytes": one.total_memory} for one in cards],
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "rank": rank,
        "world_size": world,
    }


def ranks_of_environment() -> tuple[int | None, int | None]:
    """Return the rank and world size that a launcher set: torchrun, Slurm or MPI."""
    for names in RANKS:
        told = [os.environ.get(name, "") for name in names]
        rank, world = (int(one) if one.isdecimal() else None for one in told)
        if rank is not None or world is not None:
            return rank, world
    return None, None
