"""Look at processes: their children, threads and memory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return a process's direct children, without those that only wait to be reaped."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for word in (task / "children").read_text().split():
                with suppress(OSError):
                    state = Path(f"/proc/{word}/stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found.append(int(word))
    return found


def tree_of(pid: int) -> list[int]:
    """Return a process and all below it."""
    return [pid, *(one for child in children_of(pid) for one in tree_of(child))]


def threads_of(pid: int) -> list[str]:
    """Return the names of a process's threads, the main thread's first."""
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    return [(task / "comm").read_text().strip() for task in tasks]


def memory_of(pids: list[int]) -> int:
    """Return the memory of processes in bytes; each shared page counts once (Pss)."""
    total = 0
    for pid in pids:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total << 10
