"""What has to be known of a PyTorch to record with it, and what a run says of itself.

Only the standard library is needed: a dry run loads this file by its path, in any Python.
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
    from collections.abc import Iterable
    from typing import Any

# How torch.cuda.memory_stats() counts events of an action.
COUNTERS = {
    "alloc": "allocation.all.allocated",
    "free_requested": "allocation.all.freed",
    "free_completed": "active.all.freed",
}

INSTALLED = {"site-packages", "dist-packages"}  # folders of libraries


def library_folders(torch: str) -> tuple[str, ...]:
    """The folders of code that isn't the program's own, with a slash at their ends. `torch` is
    PyTorch's."""
    paths = sysconfig.get_paths()
    found = [torch, *(paths[one] for one in ("stdlib", "purelib", "platlib", "scripts"))]
    # What torch.compile has written, with names of no meaning.
    found.append(os.environ.get("TORCHINDUCTOR_CACHE_DIR", torch))
    return tuple(os.path.join(one, "") for one in found if one)


def is_library(file: str, folders: tuple[str, ...]) -> bool:
    """Return whether a file is of a library: in one of these folders, or installed for another
    Python, whose packages this one may have, too."""
    return file.startswith((*folders, "<frozen")) or not INSTALLED.isdisjoint(file.split(os.sep))


def tracing_slots(torch: str) -> tuple[int, int, int] | None:
    """Where in the table of PyInterpreterVTable the functions are that are told of blocks taken and
    let go, and whether they are told the kind of device, too; None where this torch has none.

    By the header that lies with each torch: places follow the order of declarations, of which a
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
    """A header of this torch without its comments; empty where there is none."""
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
    """Return how much of the recording its ring buffer kept, under memreplay's key.

    `before` and `now` are memory_stats() of each device when the recording began, and before the
    traces were read out; `skipped` are actions that aren't recorded. `dropped_events` has the
    events of each device that its trace lacks, at least: those of a kind that PyTorch counts, less
    those that are there. A program may set the counters back, which makes them smaller.
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
    """memory_stats() of each device; empty for what has none."""
    try:
        return [dict(devices.memory_stats(i)) for i in range(devices.device_count())]
    except Exception:  # of a program's own allocator, or another torch: nothing is counted
        return []


def history_context(version: str) -> str:
    """Of which events PyTorch's recording looks for stacks. That of 2.11 loses an exception that is
    on its way while a block is freed: who waits for it, as a checkpoint within another does, gets a
    SystemError. Where it takes no stacks of frees it does not."""
    return "alloc" if version.startswith("2.11.") else "all"


# How PyTorch names C++ frames, and its older switch. It reads them once, at its first snapshot.
SYMBOLIZE, OLD_SYMBOLIZE = "TORCH_SYMBOLIZE_MODE", "TORCH_DISABLE_ADDR2LINE"
QUICK = ("dladdr", "fast")  # inside of the process


def stacks_for(asked: str, torch: str) -> str:
    """The `stacks` of PyTorch's recording: "python" or "all". `torch` is its folder.

    "auto" means "all" if C++ frames cost little. That takes Linux on x86-64, the only platform on
    which every version can unwind them, and a PyTorch that can name them inside of the process (2.4
    and later). Other versions ask addr2line, which takes minutes for large programs.
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
    """Let PyTorch look C++ frames up inside of the process, unless the user chose a way: only their
    names are needed. Returns whether that changed the environment."""
    if SYMBOLIZE in os.environ or OLD_SYMBOLIZE in os.environ:
        return False
    os.environ[SYMBOLIZE] = "dladdr"
    return True


def run_facts(torch: Any, devices: Any, ranks: tuple[int, int] | None) -> dict[str, Any]:
    """What a snapshot says of its run, under memreplay's key (docs/format.md). `devices` is
    torch.cuda or torch.xpu; `ranks` this one's and how many, None where the environment has
    them."""
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if ranks is not None:
        rank, world = map(str, ranks)
    cards = [devices.get_device_properties(i) for i in range(devices.device_count())]
    return {
        "version": 1,
        "torch": str(torch.__version__),
        "cards": [{"name": one.name, "total_bytes": one.total_memory} for one in cards],
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "rank": int(rank) if rank and rank.isdecimal() else None,
        "world_size": int(world) if world and world.isdecimal() else None,
    }
